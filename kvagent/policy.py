"""What may kvagent change, and when?

One frozen model holds all that a user can set. A stage is switched off by ``None``. Triggers are
small values that compose: ``Tokens(80_000) | Fraction(0.8)``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, field_validator
from pydantic.functional_validators import BeforeValidator


class Trigger:
    """Decides from a count of tokens and the window (None while unknown)."""

    def __call__(self, tokens: int, window: int | None) -> bool:
        raise NotImplementedError

    def __or__(self, other: Trigger) -> Trigger:
        return Either(self, other)

    def __and__(self, other: Trigger) -> Trigger:
        return Both(self, other)


@dataclass(frozen=True, slots=True)
class Tokens(Trigger):
    """More than ``count`` tokens."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"tokens({self.count}): a count is 0 or more")

    def __call__(self, tokens: int, window: int | None) -> bool:
        return tokens > self.count

    def __str__(self) -> str:
        return f"tokens({self.count})"


@dataclass(frozen=True, slots=True)
class Fraction(Trigger):
    """More than ``share`` (0 to 1) of the window; never while the window is unknown."""

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"fraction({self.share}): a share is above 0 and at most 1, so 80 % "
                             "are fraction(0.8)")  # fmt: skip

    def __call__(self, tokens: int, window: int | None) -> bool:
        return window is not None and tokens > self.share * window

    def __str__(self) -> str:
        return f"fraction({self.share})"


@dataclass(frozen=True, slots=True)
class Either(Trigger):
    """Either trigger."""

    left: Trigger
    right: Trigger

    def __call__(self, tokens: int, window: int | None) -> bool:
        return self.left(tokens, window) or self.right(tokens, window)

    def __str__(self) -> str:
        return f"{self.left} | {self.right}"


@dataclass(frozen=True, slots=True)
class Both(Trigger):
    """Both triggers."""

    left: Trigger
    right: Trigger

    def __call__(self, tokens: int, window: int | None) -> bool:
        return self.left(tokens, window) and self.right(tokens, window)

    def __str__(self) -> str:
        # | binds weaker than &, so only a | inside needs no parentheses of its own here
        parts = (f"({t})" if isinstance(t, Either) else str(t) for t in (self.left, self.right))
        return " & ".join(parts)


_TRIGGER_TOKEN = re.compile(
    r"\s*(?:(tokens|fraction)\s*\(\s*([\d_.]+(?:e-?\d+)?)\s*\)|([|&()]))\s*", re.IGNORECASE
)


def parse_trigger(value: Any) -> Any:
    """Read ``3000``, ``0.8``, or ``"tokens(80_000) | fraction(0.8)"``; & binds before |."""
    if isinstance(value, Trigger):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("a trigger is a number of tokens, a fraction of the window below 1, or "
                         'text such as "tokens(80_000) | fraction(0.8)"')  # fmt: skip
    if isinstance(value, (int, float)):
        if not value > 0:
            raise ValueError("a trigger is above 0; to switch the stage off, set it to null")
        if value < 1:
            return Fraction(float(value))
        if isinstance(value, float) and (value == 1 or not value.is_integer()):
            raise ValueError(f"{value} is neither a number of tokens nor a fraction of the window "
                             'below 1; for the whole window write "fraction(1)"')  # fmt: skip
        return Tokens(int(value))
    return _TriggerText(value).read()


class _TriggerText:
    """A recursive-descent reader of trigger expressions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> Trigger:
        trigger = self._any()
        if self.at != len(self.text):
            self._fail()
        return trigger

    def _fail(self) -> None:
        raise ValueError(f'cannot read the trigger "{self.text}" at character {self.at}; write '
                         'for example "tokens(80_000) | fraction(0.8)"')  # fmt: skip

    def _next(self, symbols: str) -> re.Match[str] | None:
        match = _TRIGGER_TOKEN.match(self.text, self.at)
        if match is None or (match.group(3) or "t") not in symbols:
            return None
        self.at = match.end()
        return match

    def _any(self) -> Trigger:
        trigger = self._all()
        while self._next("|"):
            trigger = trigger | self._all()
        return trigger

    def _all(self) -> Trigger:
        trigger = self._one()
        while self._next("&"):
            trigger = trigger & self._one()
        return trigger

    def _one(self) -> Trigger:
        match = self._next("t(")
        if match is None:
            self._fail()
        assert match is not None
        if match.group(3):
            trigger = self._any()
            if not self._next(")"):
                self._fail()
            return trigger
        number = match.group(2).replace("_", "")
        in_tokens = match.group(1).lower() == "tokens"
        try:
            amount = int(number) if in_tokens else float(number)
        except ValueError:
            self._fail()
            raise
        return Tokens(int(amount)) if in_tokens else Fraction(amount)


AnyTrigger = Annotated[
    Trigger,
    BeforeValidator(parse_trigger),
    PlainSerializer(str, return_type=str),
]


class _Model(BaseModel):
    # Built when first used: the import of kvagent is to be quick.
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True
    )


class Volatile(_Model):
    """Text in the head that changes from request to request without changing the instructions.

    Labelled clocks and attribution headers, dates, times, uuids and request ids are known.
    """

    patterns: tuple[str, ...] = ()
    """Regular expressions of more such text, matched inside one line. A group named ``value``
    narrows the match to the part that changes."""

    @field_validator("patterns")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
            if compiled.match(""):
                raise ValueError(f"{pattern!r} matches the empty text; make it say what changes")
        return patterns


class PinHead(_Model):
    """Keep tools and leading system messages as they were first sent."""


class Echo(_Model):
    """Send an assistant message that comes back as the server generated it."""


class Evict(_Model):
    """Shorten a long tool result on arrival, before it is ever sent: no prefix breaks."""

    trigger: AnyTrigger | None = None
    """Which results; None: those of more than a fortieth of the window, or of 2,000 tokens
    while it is unknown."""
    keep: Annotated[int, Field(ge=200)] | None = None
    """How many tokens of the result stay, marker and identifiers included; None: the more, the
    longer it is, but a quarter of the window at most; 1,000 while it is unknown."""
    exclude_tools: tuple[str, ...] = ("kvagent_recall",)
    """Tools whose results are never shortened."""

    def trips(self, tokens: int, window: int | None) -> bool:
        """Whether a result of so many tokens is to be shortened."""
        if self.trigger is not None:
            return self.trigger(tokens, window)
        return tokens > long_result(window)

    def trips_a_part(self, tokens: int, window: int | None) -> bool:
        """Whether that goes for a part, too, that the agent asked for by its lines."""
        return window is not None and tokens > window // 8 and self.trips(tokens, window)

    def tokens_kept(self, tokens: int, window: int | None) -> int:
        """What stays of a result of so many tokens."""
        if self.keep is not None:
            return self.keep
        if window is None:
            return _LONG // 2
        # What it takes grows with the root of what it holds: four times as long, twice as much.
        return min(window // 4, isqrt(long_result(window) * tokens))


# About what the instruction for a narrative takes, in tokens.
_INSTRUCTION = 700
# What is a long result where the window is not known: some 8,000 characters of prose.
_LONG = 2_000


def long_result(window: int | None) -> int:
    """From how many tokens on a result is long, unless the policy says something else."""
    return _LONG if window is None else window // 40


class Clear(_Model):
    """Replace old tool results by short stubs, many at once: one prefix break.

    It is done when the window would be too full, and, where the cost of carrying a token is known,
    when carrying them on has cost about as much as clearing them.
    """

    keep: Annotated[int, Field(ge=0)] = 3
    """So many of the newest tool results are left as they are."""
    exclude_tools: tuple[str, ...] = ("kvagent_recall",)
    """Tools whose results are never cleared."""
    clear_tool_inputs: bool = True
    """Long arguments of old calls are shortened too."""
    clear_at_least: Annotated[int, Field(ge=0)] | None = None
    """Tokens that a batch has to free, or it is not made; None: a twentieth of the window."""
    spare: Annotated[float, Field(ge=0, lt=1)] = 0.25
    """How much of what could be cleared stays nevertheless, in a short form:
    the more, the less is lost, and the sooner the next batch is due."""
    carry_cost: Annotated[float, Field(ge=0, lt=1)] | None = None
    """What it costs to carry one cached token for one turn, in tokens of prefill; None learns it
    from the server's timings, and clears for the window's sake alone until it knows."""

    def least(self, window: int) -> int:
        """Tokens that a batch has to free."""
        return window // 20 if self.clear_at_least is None else self.clear_at_least


class Compact(_Model):
    """Replace old turns by a record: facts kept verbatim, and a narrative if there is a summarizer.

    It is done when clearing does not make enough room.
    """

    keep_turns: Annotated[int, Field(ge=1)] = 4
    """So many of the newest replies, with their results, are left as they are."""
    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.15
    """The share of the window that all records together may take."""
    max_tokens: Annotated[int, Field(ge=200)] = 2_000
    """How long a narrative may be."""
    background: bool = True
    """Ask for the narrative before it is needed, while the agent goes on."""

    def narrative_tokens(self, window: int) -> int:
        """How long a narrative may be in a window."""
        return min(self.max_tokens, window // 16)

    def call_tokens(self, window: int) -> int:
        """What the call for a narrative needs behind the prompt: instruction and answer."""
        return _INSTRUCTION + self.narrative_tokens(window)


class Recall(_Model):
    """Give the model the tool ``kvagent_recall``, which gets back what was shortened."""

    answer: Literal["kvagent", "agent"] = "kvagent"
    """Who answers its calls: kvagent within the turn, so that the agent never sees them, or the
    agent, with ``engine.recall``."""
    max_calls: Annotated[int, Field(ge=1)] = 8
    """How often the model may ask within one turn."""
    max_tokens: Annotated[int, Field(ge=200)] = 4_000
    """How much it is told at a time."""


class KV(_Model):
    """What the model keeps of each token, so that events say what a conversation weighs."""

    model: str
    """As `kvagent size` takes it: a well-known name, a Hugging Face folder, or a GGUF file."""
    dtype: str = "f16"
    """The KV cache's data type: ``f16``, ``fp8``, ``q8_0``, ..."""
    tp: Annotated[int, Field(gt=0)] = 1
    """Ranks of tensor parallelism; bytes are one rank's."""


class Mend(_Model):
    """Have the chat template keep what it would drop or rewrite, as far as a request can.

    What a template does is found by rendering it, where the server tells it (llama.cpp) or
    ``Policy.template`` names it; that needs ``kvagent[exact]``. What is chosen for a conversation
    stays so to its end.
    """

    reasoning: bool = True
    """Send the reasoning of earlier replies, which many frameworks drop, where the prompt then
    keeps its prefix at least as well as without."""
    switches: bool = False
    """Set the template's own switches (``chat_template_kwargs``) that keep old reasoning or the
    day of the first request. The model then reads more of its old reasoning."""
    system_message: bool = False
    """Give a conversation without a system message a short one, where the template would write its
    own, with the date in it."""


class Hints(_Model):
    """Fields and headers that help a server keep a conversation's cache; all are off by default.

    They change no prompt. A request that sets such a field itself keeps its own, and a server that
    does not know a field is not sent it.
    """

    id_slot: Literal["conversation", "role"] | None = None
    """llama.cpp: a slot for each conversation, or for each role (one system prompt and set of
    tools), as long as there is one for everybody. So a sub-agent does not take its parent's."""
    cache_salt: bool = False
    """vLLM: tenants (namespaces) share no blocks, so none can find out by timing what another
    sent. They then share no system prompt either."""
    cache_prompt: bool = False
    """llama.cpp: use the slot's tokens, also where the server is set not to."""
    session_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] | None = None
    """The header by which a router of several replicas knows a conversation; its value is the
    conversation's name, or a digest of it where a header cannot hold that."""


class Policy(_Model):
    """All that a user can set. ``Policy(evict=None)`` switches a stage off."""

    mode: Literal["observe", "safe", "full"] = "full"
    """``observe``: bytes out are the bytes in, events say what would be done. ``safe``: only
    replays of the same meaning, no text that a model reads changes. ``full``: everything."""
    window: Annotated[int, Field(gt=0)] | None = None
    """Tokens that one conversation may have; None asks the server."""
    pin_head: PinHead | None = Field(default_factory=PinHead)
    volatile: Volatile = Field(default_factory=Volatile)
    echo: Echo | None = Field(default_factory=Echo)
    evict: Evict | None = Field(default_factory=Evict)
    clear: Clear | None = Field(default_factory=Clear)
    compact: Compact | None = Field(default_factory=Compact)
    recall: Recall | None = None
    kv: KV | None = None
    mend: Mend | None = Field(default_factory=Mend)
    template: Path | None = None
    """A file with the model's chat template, for servers that do not tell theirs."""
    hints: Hints = Field(default_factory=Hints)
    warn_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.70, 0.85, 0.95)
    """Shares of the window at which one warning each is given."""
    probe: bool = True
    """Ask the server once what it is and how large its window is, in 2 s at most."""
    memory_bytes: Annotated[int, Field(gt=0)] = 256 * 1024 * 1024
    """What the conversations held in memory may weigh; the least recently used go first."""

    def room(self, window: int, reply: int | None = None, *, narrated: bool = False) -> int:
        """Tokens that a prompt may have, so that a reply of at most ``reply`` has room as well.

        Where the request does not say how long the reply may be, a twentieth of the window is
        kept. Who allows a reply as long as the window does not mean to have no prompt.
        ``narrated``: the call for a narrative has to fit behind the prompt as well.
        """
        kept = window // 20 if reply is None else reply
        if narrated and self.compact is not None:
            kept = max(kept, self.compact.call_tokens(window))
        # A prompt that fills the window to the last token is refused.
        return window - min(max(kept, 0), window // 2) - 1

    def explain(self, window: int | None = None) -> str:
        """The marks in force for a window (None: that of the policy), for people to read."""
        from kvagent.explanation import explain

        return explain(self, window or self.window)
