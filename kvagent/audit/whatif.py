"""What would the same session cost, had it been sent through kvagent?

Each request goes through one engine, as ``kvagent rewrite`` sends it through, and what comes out is
counted like what went in. The agent and its model are taken to do what they did.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from kvagent.audit.conversations import Placed
from kvagent.audit.prompts import Prompts, Tokens
from kvagent.audit.sent import raw_of
from kvagent.audit.session import Session, WhatIf
from kvagent.audit.transcript import Reported, Request
from kvagent.audit.turns import Analysis, Totals, Turn
from kvagent.events import Edited
from kvagent.explanation import changed
from kvagent.offline import Offline, place
from kvagent.policy import Policy
from kvagent.stores import MemoryStore

if TYPE_CHECKING:
    from kvagent.tokens.profile import TemplateProfile

logger = logging.getLogger("kvagent")

# The formats of agents whose server is asked in another form than chat requests.
_OTHER_FORMS = frozenset(
    ("anthropic", "claude_code", "claude_web", "codex", "openai_functions", "openai_responses")
)

# Bytes of conversations that the engine holds, unless the policy says it, and of texts that it could
# give back: in a log, what was not continued for long hardly is.
_ROOM, _STORED = 32 << 20, 16 << 20

# In place of prefill.
_REFUSED = -1


class WhatIfSent:
    """Watches a transcript, and says in the end what kvagent would have made of it.

    It never fails: what goes wrong is told in ``left_out``.

    Args:
        policy: as a user sets it; ``ValueError`` if it names a file that cannot be read.
        analysis: counts what the session was; its counter, server and model are used here, too.
    """

    def __init__(self, policy: Policy, analysis: Analysis) -> None:
        self._policy = "; ".join(changed(policy)) or "the default policy"
        if "memory_bytes" not in policy.model_fields_set:
            policy = policy.model_copy(update={"memory_bytes": _ROOM})
        self._offline = Offline(policy, store=MemoryStore(_STORED))
        prompts = _Beside(analysis.prompts)
        self._analysis = Analysis(prompts, analysis.target, analysis.kv_bytes)
        self._totals = Totals()
        self._edited = 0
        self._breaks = 0
        self._kv_peak: int | None = None
        self._stages: Counter[str] = Counter()
        self._prefill = array("q")
        """Of each request."""
        self._passed = 0
        self._why_passed = ""
        self._failed = ""

    def turn(self, turn: Turn) -> None:
        """The next request, counted as it was."""
        if self._failed:
            return
        try:
            self._send(turn)
        except Exception as error:
            logger.debug("kvagent failed on %s", turn.place, exc_info=True)
            self._failed = f"An error inside kvagent at {turn.place}: {place(error)}."

    def _send(self, was: Turn) -> None:
        # Shortened, it may not look like what was sent before; but it is known what it continues.
        request = replace(self._rewritten(was.request), conversation=str(was.conversation))
        turn = self._analysis.turn(request)
        self._totals.add(turn)
        self._breaks += bool(turn.breaks)
        if turn.kv_bytes is not None:
            self._kv_peak = max(self._kv_peak or 0, turn.kv_bytes)
        cached = turn.predicted_tokens
        self._prefill.append(_REFUSED if cached is None else turn.prompt_tokens - cached)

    def _rewritten(self, request: Request) -> Request:
        asked = {**request.options, "messages": list(request.messages)}
        if request.tools:
            asked["tools"] = list(request.tools)
        body = raw_of(asked)
        made = self._offline.rewrite(body)
        if made.let_through:
            self._passed += 1
            self._why_passed = self._why_passed or made.let_through
        self._stages.update(
            {event.stage for event in made.events if isinstance(event, Edited) and event.applied}
        )
        # The answer's length still counts for the KV cache; what was cached is another matter now.
        answered = Reported(completion_tokens=request.reported.completion_tokens)
        if made.body == body:
            return replace(request, reported=answered)
        self._edited += 1
        sent = orjson.loads(made.body)
        return replace(
            request,
            messages=sent.pop("messages"),
            tools=sent.pop("tools", None) or (),
            options=sent,
            reported=answered,
        )

    def result(self, session: Session) -> WhatIf:
        """What was found, beside what the session was."""
        if self._failed or not self._prefill:
            why = self._failed or _nothing(session)
            return WhatIf(self._policy, session.totals, Totals(), 0, 0, None, None, why)
        rows = session.rows
        saved = refused_before = refused_after = uncompared = 0
        for row, prefill in zip(rows, self._prefill, strict=True):
            cached = row.predicted_tokens
            refused_before += cached is None
            refused_after += prefill == _REFUSED
            if cached is None or prefill == _REFUSED:
                uncompared += 1
            else:
                saved += row.prompt_tokens - cached - prefill
        left_out = []
        if session.format in _OTHER_FORMS:
            left_out.append("It is told as if they had been chat requests.")
        if self._passed:
            went = "1 request goes" if self._passed == 1 else f"{self._passed:,} requests go"
            left_out.append(f"{went} out unchanged: {self._why_passed}.")
        if uncompared:
            left_out.append(f"The saved prefill is without {_refused(uncompared)}.")
        return WhatIf(
            self._policy,
            session.totals,
            self._totals,
            self._edited,
            saved,
            max((row.kv_bytes for row in rows if row.kv_bytes is not None), default=None),
            self._kv_peak,
            " ".join(left_out),
            sum(bool(row.breaks) for row in rows),
            self._breaks,
            self._stages.most_common(),
            refused_before,
            refused_after,
        )


class _Beside:
    """The same counter for a second analysis, so that what both have is encoded once.

    What a counter keeps of a branch goes by its number: here they are others than there.
    """

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    @property
    def name(self) -> str:
        """What the tokens come from."""
        return self._prompts.name

    @property
    def exact(self) -> bool:
        """Whether they are the model's own."""
        return self._prompts.exact

    @property
    def profile(self) -> TemplateProfile | None:
        """What the template does to a prompt that grows."""
        return self._prompts.profile

    def ahead(self, placed: Sequence[Placed]) -> None:
        """What the engine makes of requests is known one by one."""

    def tokens(self, placed: Placed) -> Tokens:
        """The tokens of a request's prompt."""
        left = None if placed.left is None else ~placed.left
        return self._prompts.tokens(placed._replace(branch=~placed.branch, left=left))

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""
        return self._prompts.count(text)


def _nothing(session: Session) -> str:
    if session.traced:
        return "The trace has no texts that could be sent."
    return "There is no request."


def _refused(count: int) -> str:
    return "1 request that is refused" if count == 1 else f"{count:,} requests that are refused"
