"""What did kvagent see and do? Frozen values, given to ``on_event`` in the order they happen.

Token counts are the server's where a field says so, else estimates calibrated by the server's.
No event holds text of a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Cause = Literal[
    "arguments_reserialised",
    "carrying_costs",
    "message_changed",
    "message_inserted",
    "message_reserialised",
    "messages_removed",
    "options_changed",
    "reasoning_dropped",
    "repeated_result",
    "result_too_long",
    "schema_key_order",
    "system_changed",
    "system_reserialised",
    "text_moved",
    "tools_changed",
    "tools_reordered",
    "volatile_text",
    "window_crowded",
    "window_full",
]
"""Why a prefix broke, or would have without kvagent, or why kvagent made an edit."""

MissCause = Literal["evicted", "restart", "slot_lost", "template"]
"""Why, most likely, a server took less from its cache than it had been sent."""

Part = Literal["head", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Edited:
    """A request left (or, in observe mode, would have left) in another form than it came."""

    conversation: str
    stage: str
    """The stage that did it: ``replay``, ``pin_head``, ``echo``, ``evict``, ``clear``, ``compact``,
    ``reply`` (``max_tokens`` lowered to half the window, for a server that counts it), or a custom
    one's."""
    cause: Cause | str
    index: int
    """The first message concerned, counted as the agent sent them; tools count as message 0."""
    count: int = 1
    """How many messages."""
    saved_tokens: int = 0
    """Estimated prefill that this saves on this turn: 0 where the agent's own form did not change
    since it was last sent. Several edits that keep one prefix save the same tokens."""
    applied: bool = True
    """False in observe mode: the bytes went out as they came."""
    detail: str = ""
    freed_tokens: int = 0
    """How much shorter the prompt is from now on, about: saved as KV memory on every later turn."""
    cost_tokens: int = 0
    """Cached tokens behind the edit, about, that are prefilled again because of it."""
    expected_tokens: int | None = None
    """Prefill that it is expected to save in the turns to come, its cost deducted; None while it is
    not known what it costs the server to carry a token. Below 0, room alone is why it was made."""


@dataclass(frozen=True, slots=True)
class PrefixBroken:
    """The prompt differs from the one before at a place that the server had cached."""

    conversation: str
    index: int
    """The first message that differs, counted as the agent sent them; tools count as message 0."""
    cause: Cause
    lost_tokens: int
    """Estimated tokens behind the break that must be prefilled again."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Overflowed:
    """The server refused the prompt because it is too long."""

    conversation: str
    status: int
    prompt_tokens: int | None
    """The prompt's length as the server says; a floor where ``at_least``."""
    at_least: bool
    window: int | None
    """The window as the server says."""
    silent: bool = False
    """It was not refused: the server answered, and had cut off the prompt's front.
    ``prompt_tokens`` is then a floor, what the messages have by the general tokenizer, and
    ``window`` what the server took."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A request was answered. Counts are the server's own; None where it does not say."""

    conversation: str
    turn: int
    """1 for the first answered request of the conversation."""
    prompt_tokens: int | None
    """The whole prompt, cached tokens included."""
    cached_tokens: int | None
    prefilled_tokens: int | None
    completion_tokens: int | None
    ttft_s: float | None
    """Seconds to the first chunk of a stream, or to an unstreamed answer."""
    growth: Mapping[Part, int] = field(default_factory=dict)
    """Tokens that this turn added, by part; estimates that sum up to the server's count."""
    growth_per_turn: float | None = None
    """Mean tokens a turn adds, over the last eight turns."""
    window: int | None = None
    turns_left: int | None = None
    """Turns until the window is full if the prompt goes on growing so; None while unknown."""
    kv_bytes: int | None = None
    """What prompt and reply take of the KV cache; None unless `Policy.kv` says what model it is."""


@dataclass(frozen=True, slots=True)
class CacheMissed:
    """The prompt only grew, yet the server had less of it in its cache than it was sent before."""

    conversation: str
    expected_tokens: int
    """What the server was sent with the last turn, in whole blocks; a lower bound."""
    cached_tokens: int
    """What it took, by its own count."""
    cause: MissCause
    """The likely one: ``evicted`` or ``slot_lost`` to other conversations or branches;
    ``template``: the chat template renders old messages anew, or layers of its model cannot go
    back; ``restart``."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class WindowFilling:
    """Prompt and reply fill this share of the window; told once a share and conversation."""

    conversation: str
    share: float
    tokens: int
    window: int
    turns_left: int | None


@dataclass(frozen=True, slots=True)
class Bypassed:
    """kvagent let a request out as it came, because of an error of its own or a doubt."""

    reason: str
    error: BaseException | None = None


Event = Edited | PrefixBroken | Overflowed | TurnFinished | CacheMissed | WindowFilling | Bypassed
