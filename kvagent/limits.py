"""How long may a prompt be, as far as a server's refusals have taught it?"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from kvagent.backends import Overflow, Usage
from kvagent.fingerprint import digest
from kvagent.stages import Turn

# A refusal that does not say how long the prompt is: this much of it is tried next.
_SMALLER = 0.75
# So far below what it has by a general tokenizer no prompt is, but one whose front was cut off.
_CUT = 0.6
# As long as the two tokenizers were not compared: of Chinese text they differ so much.
_CUT_AT_FIRST = 0.4
_LONG = 2_000
# No window is so small; a chat template may leave out as much, of tools that it does not know.
_SHORT = 1_000
_REFUSED = 256
REPLY_KEYS = ("max_completion_tokens", "max_tokens")


class Limits:
    """Windows by model, who counts the reply, and the requests that a server broke off."""

    def __init__(self) -> None:
        self._windows: dict[str, int] = {}
        self._counting: set[str] = set()
        self._refused: OrderedDict[bytes, int] = OrderedDict()

    def window(self, model: str, *said: int | None) -> int | None:
        """The least of what policy and server say and a refusal taught; None: nothing is known."""
        known = [window for window in (*said, self._windows.get(model)) if window is not None]
        return min(known, default=None)

    def of_request(self, raw: bytes) -> int | None:
        """What a request may take that was refused, or broken off, when it was sent before."""
        return self._refused.get(digest(raw)) if self._refused else None

    def refused(self, turn: Turn, overflow: Overflow) -> None:
        """Learn from a refusal what the request, and others like it, may take when sent again."""
        window, estimated, counted = overflow.window, turn.tokens, overflow.prompt_tokens
        if window is not None:
            self._windows[turn.request.model] = window
        if overflow.output_tokens:
            self._counting.add(turn.request.model)
        if window is None or (overflow.at_least and counted is not None and estimated < counted):
            limit = int(_SMALLER * min(estimated, window or estimated))
        else:
            limit = window
            if counted is not None and counted > estimated:  # it was longer than thought
                limit = window * estimated // counted
        self._refused[digest(turn.request.raw)] = limit
        while len(self._refused) > _REFUSED:
            self._refused.popitem(last=False)

    def reply(self, model: str, window: int | None) -> int | None:
        """The most that may be asked for of a server that refuses what does not fit together."""
        # As much as ``Policy.room`` leaves for a reply that is to have the whole window.
        return window // 2 if window is not None and model in self._counting else None

    def cut(self, turn: Turn, least: int, usage: Usage, *, compared: bool) -> bool:
        """Whether a server that answered has cut the front off the prompt, saying nothing.

        ``least`` is what the prompt has at least, in this server's tokens if the two tokenizers
        were ``compared``. What the server took is then taken for its window.
        """
        prompt = usage.prompt_tokens
        if prompt is None or prompt < _SHORT or least < _LONG:
            return False
        if prompt >= (_CUT if compared else _CUT_AT_FIRST) * least:
            return False
        self._windows[turn.request.model] = prompt + (usage.completion_tokens or 0)
        return True

    def learned(self) -> dict[str, Any]:
        """Windows, and the models that count the reply, as JSON can hold it."""
        return {"windows": dict(self._windows), "counting": sorted(self._counting)}

    def resume(self, learned: Mapping[str, Any]) -> None:
        """Go on from what ``learned()`` told in another process; errors of any kind for else."""
        windows = {str(model): int(window) for model, window in learned["windows"].items()}
        self._counting.update(map(str, learned["counting"]))
        self._windows.update(windows)

    def answered(self, model: str, usage: Usage) -> None:
        """A server that took more than its window was believed to be has another one."""
        if (usage.prompt_tokens or 0) > self._windows.get(model, usage.prompt_tokens or 0):
            del self._windows[model]


def with_reply(body: bytes, request: Mapping[str, Any], most: int | None) -> bytes:
    """A request's bytes with a reply of at most ``most`` tokens asked for.

    The same bytes where it asks for no more, or where it says so cannot be found with certainty.
    """
    for key in REPLY_KEYS:
        asked = request.get(key)
        if most is None or not isinstance(asked, int) or asked <= most:
            continue
        places = re.compile(rb'("%b"\s*:\s*)%d(?=[\s,}])' % (key.encode(), asked))
        if len(places.findall(body)) == 1:
            body = places.sub(rb"\g<1>%d" % most, body)
    return body
