"""The prompt only grew, yet the server took less from its cache than it had: why, most likely?

What a server holds is not to be seen from outside. The judgement rests on what this engine knows:
the prompt that the server was last sent in this conversation, and who else was served since.
"""

from __future__ import annotations

from collections import OrderedDict

from kvagent.backends import Server, crowded_out
from kvagent.events import CacheMissed

# The end of a prompt, where the reply begins, is often not what it becomes in the history.
_OPENING = 16
# A few first tokens are alike in all prompts of a template.
_NOTHING = 16
_MOST_CONVERSATIONS = 4096


class Misses:
    """Knows who was served when; the caller sees to it that one thread is in here at a time."""

    def __init__(self) -> None:
        self._served: OrderedDict[str, tuple[int, int | None]] = OrderedDict()
        """Of each conversation the newest turn: its number, and its prompt's tokens."""
        self._turns = 0

    def judge(
        self,
        conversation: str,
        known: int | None,
        prompt: int | None,
        cached: int | None,
        server: Server | None,
    ) -> CacheMissed | None:
        """Note a turn of ``prompt`` tokens, and say what it missed.

        ``known`` are the tokens of the prompt that it goes on from if it begins with it (None: it
        does not, or nobody counted). ``cached`` is what the server took from its cache.
        """
        last, newest = self._served.pop(conversation, (None, None))
        others = self._turns - last if last is not None else 0
        self._turns += 1
        self._served[conversation] = self._turns, prompt
        if len(self._served) > _MOST_CONVERSATIONS:
            self._served.popitem(last=False)
        if known is None or cached is None or last is None:
            return None
        block = server.block_size if server is not None and server.block_size else 1
        expected = (known - _OPENING) // block * block
        if cached >= expected:
            return None
        if others:
            cause = crowded_out(server)
            detail = f"{others} turns of other conversations were served meanwhile"
        elif newest != known:
            cause = crowded_out(server)
            detail = "another branch of this conversation was served meanwhile"
        elif cached > _NOTHING:
            cause = "template"
            detail = (
                "nobody else was served meanwhile; the chat template may render old messages anew"
            )
        else:
            cause = "restart"
            detail = "nobody else was served meanwhile: a restart, or clients that are not wrapped"
        return CacheMissed(conversation, expected, cached, cause, detail)
