"""Does a conversation reach the end of the window, and what happens there?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from kvagent.audit.figures import count, several
from kvagent.audit.prediction import Target
from kvagent.audit.recent import Recent
from kvagent.audit.rule import Rule, Sighting, Spot
from kvagent.audit.rules.places import spot_of
from kvagent.audit.transcript import Place
from kvagent.audit.turns import Traced, Turn
from kvagent.backends import Overflow, overflow_of

# Conversations that are followed, and over how many of their last turns growth is taken.
_ROOM = 50_000
_TURNS = 8
# How near is near: so many more turns, or so full.
_LEFT = 8
_FULL = 0.9
_NAMED = 5

_WRAPPED = (
    "client = kvagent.wrap(OpenAI(...))  # clears old results, then compacts, in rare batches\n"
    "print(kvagent.Policy().explain(window))  # where its marks are"
)

WINDOW_NEAR = Rule(
    "KVA505",
    "window-near",
    "warning",
    "",
    "Conversations come near the end of the window.",
    "Each turn adds a call and its result, and prompt and answer together must fit the window. An "
    "agent that does nothing about it gets an error in the middle of its work; one that drops the "
    "oldest message each turn loses its prefix with every request from then on.",
    "Make room before the end: rarely, much at once, old tool results first.",
    _WRAPPED,
)

OVERFLOW = Rule(
    "KVA506",
    "overflow-error",
    "error",
    "",
    "The server refused a prompt because it is longer than the window.",
    "Both servers answer with an error (status 400) and compute nothing, and the agent's run is "
    "over unless it knows that error. Frameworks look for OpenAI's wording and miss those of vLLM "
    "and llama.cpp. Counting with another tokenizer than the model's, or without the tools and the "
    "system prompt, is how one gets there unawares.",
    "Count tools, system prompt and the answer's room with the model's own tokenizer, and make "
    "room before the end; kvagent knows the wordings, makes room and sends once more.",
    _WRAPPED,
)

RETRIED = Rule(
    "KVA507",
    "overflow-retried",
    "error",
    "",
    "A request that is too long was sent again unchanged.",
    "A prompt that does not fit the window does not fit it the next time. Clients retry errors that "
    "may pass, and take this one for such; each try costs the time of a request, and the run fails "
    "all the same.",
    "Do not retry this error: make the prompt shorter, then send it.",
    "except openai.BadRequestError as error:\n"
    "    if kvagent.backends.overflow_of(error.status_code, error.response.content):\n"
    "        make_room(messages)  # not: sleep and send the same",
)

TOO_LONG = Rule(
    "KVA508",
    "prompt-too-long",
    "error",
    "",
    "The prompt does not fit the window, or the cache, of the chosen server.",
    "The log was made with a larger window, or its server cut the prompt without a word. On the "
    "chosen server the request is refused, and the run ends there. The cache must hold the longest "
    "prompt, too: vLLM does not start with a window that is larger than its cache.",
    "Serve the model with a larger window and cache, or make the prompts shorter before that.",
    _WRAPPED,
)

RULES = (WINDOW_NEAR, OVERFLOW, RETRIED, TOO_LONG)


@dataclass(slots=True)
class _Grown:
    """How a conversation has grown, to its last request."""

    place: Place
    conversation: int
    turn: int
    tokens: int
    window: int | None
    exact: bool
    growths: deque[int] = field(default_factory=lambda: deque(maxlen=_TURNS))

    @property
    def spot(self) -> Spot:
        return Spot(self.place, self.conversation, self.turn)


class Window:
    """Follows each conversation towards the end of the window."""

    def __init__(self) -> None:
        self._grown: Recent[int, _Grown] = Recent(_ROOM)
        self._refused: Recent[int, int] = Recent(_ROOM)
        self._limit: int | None = None
        self._traced = 0

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """Whether it was refused, or would be."""
        self._follow(turn)
        branch, error = turn.placed.branch, turn.request.error
        overflow = None if error is None else overflow_of(400, error)
        if overflow is not None and error is not None:
            return self._overflow(turn, overflow, error)
        if self._refused.get(branch):
            self._refused.put(branch, 0)
        if turn.predicted_tokens is None and turn.prompt_tokens:
            spot = spot_of(turn, excerpt=f"{count(turn.prompt_tokens, turn.exact)} tokens")
            return (Sighting(TOO_LONG, None, spot, _does_not_fit(turn.target), everywhere=True),)
        return ()

    def _overflow(self, turn: Turn, overflow: Overflow, error: str) -> Iterable[Sighting]:
        self._limit = overflow.window or self._limit
        size = overflow.prompt_tokens or turn.prompt_tokens
        exact = turn.exact or overflow.prompt_tokens is not None
        window = "" if overflow.window is None else f" of {overflow.window:,} tokens"
        said = f"The server refused prompts that are longer than its window{window}."
        spot = spot_of(turn, excerpt=f"{count(size, exact)} tokens: {error}")
        yield Sighting(OVERFLOW, overflow.window, spot, said, everywhere=True)
        branch = turn.placed.branch
        if turn.kind == "again" and self._refused.get(branch):
            said = "Requests that had been refused as too long were sent again unchanged."
            yield Sighting(RETRIED, None, spot_of(turn), said, everywhere=True)
        self._refused.put(branch, size)

    def traced(self, traced: Traced) -> Iterable[Sighting]:
        """The same for a trace without texts."""
        self._traced += 1
        if traced.predicted_tokens is None and traced.prompt_tokens > 0:
            shown = f"{traced.prompt_tokens:,} tokens"
            spot = Spot(traced.request.place, 0, self._traced, excerpt=shown)
            said = "These prompts are longer than the window or the cache of the chosen server."
            yield Sighting(TOO_LONG, None, spot, said, everywhere=True)

    def end(self) -> Iterable[Sighting]:
        """Which conversations ended near the end of the window."""
        near = []
        for grown in self._grown.values():
            window = grown.window or self._limit
            if window is None or grown.tokens >= window:
                continue
            left = _turns_left(grown, window)
            if left is not None:
                near.append((left, -grown.tokens, grown))
        if not near:
            return
        near.sort(key=lambda each: each[:2])
        (left, _, nearest), number = near[0], len(near)
        window = nearest.window or self._limit or 0
        who = "A conversation comes" if number == 1 else f"{number:,} conversations come"
        growth = count(round(median(nearest.growths)), nearest.exact)
        said = (
            f"{who} near the end of the window of {window:,} tokens; conversation "
            f"{nearest.spot.conversation} has {count(nearest.tokens, nearest.exact)} and grows by "
            f"{growth} a turn: it is full in {several(left, 'turn')}."
        )
        shown = near[:_NAMED]
        for place, (_, _, grown) in enumerate(shown):
            more = number - len(shown) + 1 if place == len(shown) - 1 else 1
            yield Sighting(WINDOW_NEAR, None, grown.spot, said, everywhere=True, count=more)

    def _follow(self, turn: Turn) -> None:
        conversation = turn.conversation
        held = self._grown.get(conversation)
        if held is None:
            place, number = turn.place, turn.number
            window, exact = turn.target.window, turn.exact
            held = _Grown(place, conversation, number, turn.prompt_tokens, window, exact)
            self._grown.put(conversation, held)
            return
        held.place, held.turn, held.tokens = turn.place, turn.number, turn.prompt_tokens
        held.exact = held.exact and turn.exact
        if turn.growth is not None and turn.growth > 0:
            held.growths.append(turn.growth)


def _does_not_fit(target: Target) -> str:
    if target.window is not None:
        return f"These prompts do not fit a window of {target.window:,} tokens."
    room = "" if target.room is None else f" of {target.room:,} tokens"
    return f"These prompts do not fit a cache{room}."


def _turns_left(grown: _Grown, window: int) -> int | None:
    """In how many turns it is full; None if that is far off, or cannot be told yet."""
    if len(grown.growths) < 3:
        return None
    step = median(grown.growths)
    left = max(1, -(-(window - grown.tokens) // max(1, round(step))))
    return left if left <= _LEFT or grown.tokens > _FULL * window else None
