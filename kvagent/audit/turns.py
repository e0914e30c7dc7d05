"""What did each request cost, how much of it had the server before, and what was lost?

Counts are in tokens, by the counter that was chosen; each turn says whether it is the model's own
(``exact``). What the transcript reports is the maker's own count and stands beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kvagent.audit.conversations import Conversations, Kind, Placed
from kvagent.audit.difference import AROUND, Difference, differences
from kvagent.audit.prediction import HashedPrediction, Prediction, Target
from kvagent.audit.prompts import Estimated, Ids, Prompts, Tokens
from kvagent.audit.recent import Recent
from kvagent.audit.reported import Gap, Reporting
from kvagent.audit.transcript import Hashed, Item, Place, Reported, Request, Unreadable
from kvagent.events import Part
from kvagent.prefixcache.hit import Loss
from kvagent.prefixcache.seen import common_prefix

if TYPE_CHECKING:
    from kvagent.tokens.profile import TemplateProfile

# What a template puts behind the last message differs from what follows once it is not the last.
_EDGE = 32

# Tokens at the end of a prompt that only ask for an answer.
_TAIL = 8

# Tokens of the last prompts that are held to see what a template does to them.
_ROOM = 2_000_000

# So many requests are read ahead, or so many bytes of them.
_AHEAD = 64
_AHEAD_BYTES = 8 << 20

_PARTS: dict[str, Part] = {
    "assistant": "assistant",
    "developer": "head",
    "function": "tool",
    "system": "head",
    "tool": "tool",
}


class Parts(NamedTuple):
    """A prompt's tokens by what they are; together they are all of it."""

    head: int = 0
    """Tools and system messages."""
    user: int = 0
    assistant: int = 0
    tool: int = 0
    """Results of tools."""


class Turn(NamedTuple):
    """One request of a conversation, counted."""

    placed: Placed
    """The request, what was sent before, and how both relate."""
    prompt_tokens: int
    exact: bool
    """Whether the tokens here are the model's own; else all of them are estimates."""
    fault: str
    """Why they are estimates although a model was given: what the server would say, or the
    template."""
    parts: Parts
    growth: int | None
    """Tokens more than in the request before, below 0 where it shrank; None for the first one."""
    reusable_tokens: int
    """The longest beginning of the prompt that any request before it had, in whatever conversation:
    what a cache without an end, exact to the token, would give."""
    predicted_tokens: int | None
    """What the chosen server would take from its cache; None: it refuses the prompt."""
    loss: Loss
    """Why that is less than ``reusable_tokens``."""
    wasted_tokens: int
    """Sent before in this conversation and sent again, but behind a difference, so that it must be
    prefilled once more."""
    differences: tuple[Difference, ...]
    """Where the request differs from the one before it: the first place in each of its options,
    system messages, tools and other messages; none where it only grew."""
    kv_bytes: int | None
    """What prompt and answer take of the KV cache; None unless a model was named. An answer whose
    length is not known counts as nothing."""
    gap: Gap | None
    """The report beside the prediction; None where there is no report or no prediction."""
    starts: Sequence[int]
    """In front of which token each message begins, and last ``prompt_tokens``."""
    profile: TemplateProfile | None = None
    """What the chat template does to a prompt that grows; None where none is known."""
    target: Target = Target()
    """The server for which cached tokens were predicted."""

    @property
    def request(self) -> Request:
        """The request itself."""
        return self.placed.request

    @property
    def place(self) -> Place:
        """Where it stands in the transcript."""
        return self.placed.request.place

    @property
    def conversation(self) -> int:
        """The conversation's number, from 0."""
        return self.placed.conversation

    @property
    def number(self) -> int:
        """Which request of its conversation, from 1."""
        return self.placed.number

    @property
    def kind(self) -> Kind:
        """What it is beside the one before."""
        return self.placed.kind

    @property
    def reported(self) -> Reported:
        """What the transcript says of its tokens."""
        return self.placed.request.reported

    @property
    def breaks(self) -> tuple[Difference, ...]:
        """The differences, if the prompt leaves the one before it there: what is rendered as it was
        breaks nothing."""
        before = self.prompt_tokens - (self.growth or 0)
        return self.differences if self.reusable_tokens < before - _TAIL else ()

    @property
    def fresh(self) -> range:
        """The messages that do not stand as they stood in the request before."""
        return range(self.placed.common, len(self.placed.snapshot.messages))

    def size_of(self, message: int) -> int:
        """Tokens of a message, from 0."""
        return self.starts[message + 1] - self.starts[message]


@dataclass(frozen=True, slots=True)
class Traced:
    """One request of a trace without texts, counted; its tokens are the trace's own."""

    request: Hashed
    prompt_tokens: int
    predicted_tokens: int | None
    loss: Loss
    lost_tokens: int = 0
    """What a cache without an end would have given beyond that."""

    @property
    def full_tokens(self) -> int:
        """Tokens in full blocks: what could have come from the cache at most."""
        size = self.request.block_size
        return self.prompt_tokens // size * size if size > 0 else 0


class _Last(NamedTuple):
    """The last request of a branch, counted."""

    ids: Ids[int]
    estimated: bool
    """Whether although a model was given."""
    starts: Sequence[int]
    parts: Parts


class Analysis:
    """Counts the requests of a transcript, one after the other.

    Args:
        prompts: gives the tokens.
        target: the server for which cached tokens are predicted.
        kv_bytes: bytes of the KV cache that so many tokens take; `kvagent.weight.kv_bytes` makes
            it from a model's name.
    """

    def __init__(
        self,
        prompts: Prompts | None = None,
        target: Target | None = None,
        kv_bytes: Callable[[int], int] | None = None,
    ) -> None:
        self.target = target or Target()
        self.prompts = prompts or Estimated()
        self.kv_bytes = kv_bytes
        self._conversations = Conversations()
        self._prediction = Prediction(self.target)
        self._hashed = HashedPrediction(self.target.room)
        self._last: Recent[int, _Last] = Recent(_ROOM)
        self._reporting = Reporting(self.target)

    def turns(self, items: Iterable[Item]) -> Iterator[Turn | Traced | Unreadable]:
        """All of a transcript; what could not be read passes through.

        Requests are read some way ahead, so that their new texts are encoded together, and while
        those before them are counted.
        """
        waiting: Sequence[Placed] = ()
        for placed, behind in self._read_ahead(items):
            self.prompts.ahead(placed)
            yield from map(self._turn, waiting)
            waiting = placed
            if behind is not None:
                yield from map(self._turn, waiting)
                waiting = ()
            if isinstance(behind, Hashed):
                yield self.traced(behind)
            elif isinstance(behind, Unreadable):
                yield behind
        yield from map(self._turn, waiting)

    def _read_ahead(
        self, items: Iterable[Item]
    ) -> Iterator[tuple[Sequence[Placed], Hashed | Unreadable | None]]:
        """Some requests in a row, and what comes behind them that is none."""
        placed: list[Placed] = []
        size = 0
        for item in items:
            if not isinstance(item, Request):
                yield placed, item
                placed, size = [], 0
                continue
            placed.append(self._conversations.place(item))
            size += placed[-1].snapshot.size
            if len(placed) >= _AHEAD or size >= _AHEAD_BYTES:
                yield placed, None
                placed, size = [], 0
        yield placed, None

    def traced(self, request: Hashed) -> Traced:
        """The next request of a trace."""
        hit = self._hashed.expect(request)
        if hit is None:
            return Traced(request, request.prompt_tokens, None, "")
        lost = hit.shared_tokens - hit.cached_tokens
        return Traced(request, request.prompt_tokens, hit.cached_tokens, hit.loss, lost)

    def turn(self, request: Request) -> Turn:
        """The next request, in the order in which they were sent."""
        return self._turn(self._conversations.place(request))

    def _turn(self, placed: Placed) -> Turn:
        request = placed.request
        tokens = self.prompts.tokens(placed)
        size = len(tokens.ids)
        last = self._before(placed)
        before = None if last is None else last.ids
        shared = 0 if before is None else common_prefix(before, tokens.ids, tokens.same)
        hit = self._prediction.expect(
            tokens.ids, request.options, placed.branch, placed.left, before, shared
        )
        reusable = max(shared, hit.shared_tokens if hit is not None else 0)
        predicted = None if hit is None else hit.cached_tokens
        found: tuple[Difference, ...] = ()
        if placed.before is not None:
            found = () if placed.only_grew else differences(placed.before, placed.snapshot)
            # An estimate beside the model's own tokens shows nothing.
            if not found and last is not None and not (last.estimated or tokens.fault):
                found = _by_template(placed, tokens, last.ids, shared)
        known = _known(placed, tokens) if found else 0
        parts = _parts(placed, tokens, last)
        last = _Last(tokens.ids, bool(tokens.fault), tokens.starts, parts)
        self._last.put(placed.branch, last, size)
        answer = request.reported.completion_tokens or 0
        return Turn(
            placed,
            size,
            tokens.exact,
            tokens.fault,
            parts,
            None if before is None else size - len(before),
            reusable,
            predicted,
            "" if hit is None else hit.loss,
            max(0, known - reusable),
            found,
            None if self.kv_bytes is None else self.kv_bytes(size + answer),
            self._reporting.gap(placed, size, predicted, exact=tokens.exact),
            tokens.starts,
            self.prompts.profile,
            self.target,
        )

    def _before(self, placed: Placed) -> _Last | None:
        """The request before this one, in its branch or in the one that it left."""
        return None if placed.left is None else self._last.get(placed.left)


def _known(placed: Placed, tokens: Tokens) -> int:
    """Tokens of what this conversation was sent before, wherever it stands now."""
    old = placed.before
    if old is None:
        return 0
    sent = Counter(message.gist for message in old.messages)
    known, starts = tokens.starts[0], tokens.starts
    for number, message in enumerate(placed.snapshot.messages):
        size = starts[number + 1] - starts[number]
        if sent[message.gist] > 0:
            sent[message.gist] -= 1
            known += size
        elif number < len(old.messages) and old.messages[number].role == message.role:
            one, other = old.messages[number].raw.decode(), message.raw.decode()
            same = min(
                common_prefix(one, other) + common_prefix(one[::-1], other[::-1]), len(other)
            )
            known += size * same // max(len(one), len(other)) if same * 2 > len(other) else 0
    return min(known, len(tokens.ids))


def _parts(placed: Placed, tokens: Tokens, last: _Last | None) -> Parts:
    """What the tokens are; of the messages that stand where they stood, that is known."""
    messages, starts = placed.snapshot.messages, tokens.starts
    sizes: dict[Part, int] = {"head": starts[0], "user": 0, "assistant": 0, "tool": 0}
    first = 0
    # To the last one of before belonged the request for an answer, too.
    known = placed.common - 1
    if last is not None and placed.only_grew and starts[: known + 1] == last.starts[: known + 1]:
        old, first = last.parts, max(known, 0)
        sizes = {"head": old.head, "user": old.user, "assistant": old.assistant, "tool": old.tool}
        for number in range(first, placed.common):
            size = last.starts[number + 1] - last.starts[number]
            sizes[_PARTS.get(messages[number].role, "user")] -= size
    for number in range(first, len(messages)):
        sizes[_PARTS.get(messages[number].role, "user")] += starts[number + 1] - starts[number]
    return Parts(sizes["head"], sizes["user"], sizes["assistant"], sizes["tool"])


def _by_template(
    placed: Placed, tokens: Tokens, before: Ids[int], shared: int
) -> tuple[Difference, ...]:
    """Where the template renders otherwise what is sent as it was."""
    if placed.kind not in ("grown", "again") or shared >= min(len(before), len(tokens.ids)) - _EDGE:
        return ()
    index = max((at for at, start in enumerate(tokens.starts[:-1]) if start <= shared), default=0)
    old, new = tokens.texts()
    at = common_prefix(old, new)
    start, end = max(0, at - AROUND), at + AROUND
    texts = old[start:end], new[start:end]
    return (Difference("prompt", index, "", at, "template", *texts, at - start),)


@dataclass(slots=True)
class Totals:
    """Sums over turns."""

    requests: int = 0
    prompt_tokens: int = 0
    """Of prompts that the server takes; what it refuses is only in ``requests``."""
    predicted_tokens: int = 0
    wasted_tokens: int = 0
    longest: int = 0
    """Tokens of the longest prompt."""
    reported_requests: int = 0
    """Requests of which the transcript says how much was cached."""
    reported_prompt_tokens: int = 0
    reported_cached_tokens: int = 0
    breaks: Counter[str] = field(default_factory=Counter)
    """How often the prefix broke, by cause."""
    exact: bool = True

    def add(self, turn: Turn | Traced) -> None:
        """Count one more."""
        self.requests += 1
        self.longest = max(self.longest, turn.prompt_tokens)
        if turn.predicted_tokens is not None:
            self.prompt_tokens += turn.prompt_tokens
            self.predicted_tokens += turn.predicted_tokens
        if isinstance(turn, Traced):
            return
        self.exact = self.exact and turn.exact
        self.wasted_tokens += turn.wasted_tokens
        if turn.differences:
            self.breaks.update(difference.cause for difference in turn.breaks)
        reported = turn.reported
        if reported.prompt_tokens is not None and reported.cached_tokens is not None:
            self.reported_requests += 1
            self.reported_prompt_tokens += reported.prompt_tokens
            self.reported_cached_tokens += reported.cached_tokens

    def include(self, other: Totals) -> None:
        """Count all that another one has counted."""
        self.requests += other.requests
        self.prompt_tokens += other.prompt_tokens
        self.predicted_tokens += other.predicted_tokens
        self.wasted_tokens += other.wasted_tokens
        self.longest = max(self.longest, other.longest)
        self.reported_requests += other.reported_requests
        self.reported_prompt_tokens += other.reported_prompt_tokens
        self.reported_cached_tokens += other.reported_cached_tokens
        self.breaks.update(other.breaks)
        self.exact = self.exact and other.exact

    @property
    def hit_rate(self) -> float | None:
        """The share of prompt tokens that the chosen server would take from its cache."""
        return self.predicted_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def reported_hit_rate(self) -> float | None:
        """The share that the transcript reports, over the requests that report it."""
        if not self.reported_prompt_tokens:
            return None
        return self.reported_cached_tokens / self.reported_prompt_tokens


def totals(turns: Sequence[Turn | Traced]) -> Totals:
    """The sums over some turns."""
    sums = Totals()
    for turn in turns:
        sums.add(turn)
    return sums
