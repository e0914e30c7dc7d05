"""Which tool results fill the window: too long ones, and ones that stand there already?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kvagent.audit.figures import count, several
from kvagent.audit.findings import SPOTS
from kvagent.audit.recent import Recent
from kvagent.audit.rule import Rule, Sighting, Spot
from kvagent.audit.rules.places import spot_of, tool_of
from kvagent.audit.turns import Turn
from kvagent.chat import text_of
from kvagent.policy import long_result

# What is long for kvagent's evict, and never less than this.
_LONG_CHARS = 10_000
# They are more than worth a note from so many tokens of a prompt on, or from that part of a known
# window.
_HEAVY_TOKENS = 16_000
_HEAVY_PART = 4
# A text of a few times a pointer's fifty tokens.
_REPEAT_CHARS = 1_000

# Results and branches that are remembered, and tools that are told apart.
_ROOM = 100_000
_TOOLS = 1_000

LONG_RESULT = Rule(
    "KVA501",
    "long-tool-result",
    "warning",
    "context",
    "Tool results are so long that they fill the window.",
    "A result is prefilled once and then carried by every later request of the conversation: it "
    "takes KV cache and attention in each of them, and brings the end of the window nearer. Most of "
    "a long log, page or file listing is never looked at again. Shortened later, it costs a prefix "
    "break; shortened before it is first sent, it costs nothing. A few are a note; from 16,000 "
    "tokens of a prompt on, or a quarter of the window where it is known, it is a warning.",
    "Shorten such results before they are first sent: let the tool page, filter or limit its "
    "output, or let kvagent do it, which keeps the original for when it is asked for.",
    "import kvagent\n\n"
    "client = kvagent.wrap(OpenAI(...))  # evict is on: long results get short on arrival\n"
    "client = kvagent.wrap(OpenAI(...), policy=kvagent.Policy(recall=kvagent.Recall()))",
)

SAME_RESULT = Rule(
    "KVA502",
    "same-result-twice",
    "note",
    "context",
    "A tool result stands in the prompt already, word for word.",
    "The agent read the same file or page again, and nothing had changed. The second copy takes as "
    "many tokens as the first and tells the model nothing. Usually the model was not sure any more "
    "of what it had seen, or a step was retried.",
    "Answer with a pointer to the earlier result where nothing has changed; kvagent's evict does.",
    "client = kvagent.wrap(OpenAI(...))  # a repeated result becomes a pointer to the first",
)

RULES = (LONG_RESULT, SAME_RESULT)

_FEW_LONG = replace(LONG_RESULT, severity="note")


_RESULTS = ("tool", "function")


@dataclass(slots=True)
class _Long:
    """The long results of one tool."""

    tool: str
    is_heavy: bool = False
    """Whether they were together in one prompt what is more than worth a note."""
    count: int = 0
    tokens: int = 0
    share: float = 0.0
    """The largest part of a prompt that they were together."""
    again: int = 0
    """How often later requests sent one of them again, and how many tokens that were."""
    carried: int = 0
    exact: bool = True
    spots: list[Spot] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A long result in the last request of a branch."""

    message: int
    gist: bytes
    tokens: int
    kin: _Long


class LongResults:
    """Follows long results through the requests that carry them."""

    def __init__(self) -> None:
        self._found: dict[str, _Long] = {}
        self._standing: Recent[int, list[_Standing]] = Recent(_ROOM)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """Nothing yet: how far a result is carried shows in the end."""
        placed = turn.placed
        before = [] if placed.left is None else self._standing.get(placed.left) or []
        standing = [result for result in before if result.message < placed.common]
        moved = {result.gist: result for result in before if result.message >= placed.common}
        new: list[_Standing] = []
        for number in turn.fresh:
            known = placed.snapshot.messages[number]
            if known.role not in _RESULTS:
                continue
            if known.gist in moved:
                standing.append(replace(moved[known.gist], message=number))
            elif len(known.raw) >= _LONG_CHARS and self._is_long(turn, number):
                new.append(self._found_one(turn, number))
        if not (before or new):
            return ()  # as nearly always
        for result in standing:
            result.kin.again += 1
            result.kin.carried += result.tokens
        standing += new
        self._measure(turn, standing)
        self._standing.put(placed.branch, standing, len(standing) + 1)
        return ()

    def end(self) -> Iterable[Sighting]:
        """The long results of each tool, and how far they were carried."""
        for long in self._found.values():
            rule = LONG_RESULT if long.is_heavy else _FEW_LONG
            said = _said(long)
            *first, last = long.spots
            for spot in first:
                yield Sighting(rule, long.tool, spot, said, everywhere=True)
            rest = long.tokens - sum(spot.tokens for spot in first)
            more = long.count - len(first)
            last = replace(last, tokens=rest)
            yield Sighting(rule, long.tool, last, said, count=more, everywhere=True)

    def _is_long(self, turn: Turn, number: int) -> bool:
        if turn.size_of(number) <= long_result(turn.target.window):
            return False
        return len(text_of(turn.request.messages[number])) >= _LONG_CHARS

    def _found_one(self, turn: Turn, number: int) -> _Standing:
        tool, tokens = tool_of(turn.request.messages, number), turn.size_of(number)
        if tool not in self._found and len(self._found) >= _TOOLS:
            tool = ""
        kin = self._found.setdefault(tool, _Long(tool))
        kin.count += 1
        kin.tokens += tokens
        kin.exact = kin.exact and turn.exact
        if len(kin.spots) < SPOTS:
            text = text_of(turn.request.messages[number])
            kin.spots.append(spot_of(turn, number, field="content", tokens=tokens, excerpt=text))
        return _Standing(number, turn.placed.snapshot.messages[number].gist, tokens, kin)

    def _measure(self, turn: Turn, standing: Iterable[_Standing]) -> None:
        together: dict[str, int] = {}
        window = turn.target.window
        heavy = _HEAVY_TOKENS if window is None else window // _HEAVY_PART
        for result in standing:
            tool = result.kin.tool
            together[tool] = together.get(tool, 0) + result.tokens
            share = together[tool] / max(1, turn.prompt_tokens)
            result.kin.share = max(result.kin.share, share)
            result.kin.is_heavy = result.kin.is_heavy or together[tool] >= heavy


def _said(long: _Long) -> str:
    results = several(long.count, "result")
    whose = f" of {long.tool}" if long.tool else ""
    many = long.count > 1
    said = (
        f"{results}{whose} {'are' if many else 'is'} long: {count(long.tokens, long.exact)} tokens, "
        f"{'together ' if many else ''}up to {long.share:.0%} of a prompt"
    )
    if long.again and many:
        said += f"; later requests carried {count(long.carried, long.exact)} tokens of them"
    elif long.again:
        later = several(long.again, "later request")
        said += f"; {later} carried it"
    return said + "."


class SameResults:
    """Looks for results that stand in the prompt already."""

    def __init__(self) -> None:
        self._places: Recent[tuple[int, int], int] = Recent(_ROOM)
        self._told: Recent[tuple[int, int, bytes], int] = Recent(_ROOM)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """The results among the new messages that repeat an earlier one."""
        messages = turn.request.messages
        for number in turn.fresh:
            known = turn.placed.snapshot.messages[number]
            if known.role not in _RESULTS or len(known.raw) < _REPEAT_CHARS:
                continue
            text = text_of(messages[number])
            if len(text) < _REPEAT_CHARS:
                continue
            key = turn.conversation, hash(text)
            first = self._places.get(key)
            if first is None or first >= number or text_of(messages[first]) != text:
                self._places.put(key, number)
                continue
            this = turn.conversation, number, known.name
            if self._told.get(this) is not None:
                continue
            self._told.put(this, first)
            tool = tool_of(messages, number)
            tokens = turn.size_of(number)
            yield Sighting(
                SAME_RESULT,
                tool,
                spot_of(turn, number, field="content", tokens=tokens, excerpt=text),
                f"{f'A result of {tool}' if tool else 'A tool result'} stands in the prompt "
                "already, word for word.",
                everywhere=True,
            )

    def end(self) -> Iterable[Sighting]:
        """Nothing: each repeat was told when it came."""
        return ()
