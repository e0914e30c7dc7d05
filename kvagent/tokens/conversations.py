"""Which tiny conversations show what a chat template does to a prompt that only grows?

Each growth is a request and a later one that only adds messages to it. What stands where in a
prompt is found by the texts below, so none of them occurs in a template or in another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

Message = dict[str, Any]

SYSTEM = "You are a careful test assistant"
QUESTION = "What is the weather in Paris tomorrow"
REASONING = "I should look this up."
RESULT = "Sun, 21 degrees."
GREETING = "Hello!"
FINAL = "Bring a hat, no umbrella."
REMARK = "Let me see the forecast."
FOLLOW_UP = "And how about the day after?"
LATE = "From here on answer in one short line"
TOOL_NOTE = (
    "Forecast of the weather for one city over some days, by day, with highs and lows, the "
    "chance of rain, the wind that is to be expected, sunrise, sunset and the moon, hour by hour"
)
CALL_ID = "kvagentA1"
"""Nine letters and digits: the Mistral templates take no other."""
OTHER_CALL_ID = "kvagentB2"
ARGUMENTS: Mapping[str, Any] = {"city": "Paris", "days": 3}

TOOLS: list[Message] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": TOOL_NOTE,
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city"},
                    "days": {"type": "integer", "description": "Days"},
                },
                "required": ["city"],
            },
        },
    }
]

FIRST_CLOCK = datetime(2031, 3, 14, 9, 26, 53, tzinfo=UTC)
SECOND_CLOCK = datetime(2042, 11, 27, 18, 41, 7, tzinfo=UTC)
"""Two clocks that differ in whatever a prompt may show of a date or a time."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A chat request body whose prompt is wanted."""

    body: Mapping[str, Any]
    now: datetime = FIRST_CLOCK
    """What the clock shall say, where the prompt is rendered from a file; a server has its own."""
    as_given: bool = False
    """Leave ``arguments`` the text that it is on the wire (a server reads it first)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no such prompt; ``reason`` is the template's or the server's own word."""

    reason: str


NO_THINKING: Mapping[str, Any] = {"enable_thinking": False, "thinking": False}
THINKING: Mapping[str, Any] = {"enable_thinking": True, "thinking": True}
PRESERVE: Mapping[str, Any] = {
    "preserve_thinking": True,
    "clear_thinking": False,
    "truncate_history_thinking": False,
    "drop_thinking": False,
}
"""What llama.cpp sets by itself where the template knows one of them."""


Part = Literal["user", "answer", "step", "spoken"]
"""A user's message, an answer, a tool call with its result, the same with a word beside the call."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A request that grows: behind the question it has ``history``, and later ``added`` as well."""

    kind: str
    history: tuple[Part, ...]
    added: tuple[Part, ...]
    prompted: bool = True
    """Whether the first prompt ends by asking for an answer. Where the user cuts in, none came."""
    tools: bool = True
    reasoning: bool = True
    """Whether the assistant's reasoning is sent again."""
    thinking: bool | None = None
    """Thinking switched on or off; None is as the template has it."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """What else is in ``chat_template_kwargs``."""

    @property
    def name(self) -> str:
        """``turn``, ``turn_bare`` without the reasoning, ``turn_thinking``, ``turn_no_thinking``."""
        if self.thinking is False:  # there is no reasoning to send
            return f"{self.kind}_no_thinking"
        thinking = "_thinking" if self.thinking else ""
        return self.kind + thinking + ("" if self.reasoning else "_bare")

    def before(self) -> dict[str, Any]:
        """The first request's body."""
        return self._body(self.history, prompted=self.prompted)

    def unprompted(self) -> dict[str, Any]:
        """The first request's body, with no generation prompt."""
        return self._body(self.history, prompted=False)

    def after(self) -> dict[str, Any]:
        """The later request's body."""
        return self._body((*self.history, *self.added), prompted=True)

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> Growth:
        """The same with more ``chat_template_kwargs``."""
        return replace(self, kwargs={**self.kwargs, **kwargs})

    def twin(self) -> Growth | None:
        """The same with the reasoning sent if it is not here, and not if it is."""
        if self.thinking is False:
            return None
        return replace(self, reasoning=not self.reasoning)

    def spoken(self) -> Growth:
        """The same with a word beside each call."""
        history, added = (
            tuple("spoken" if part == "step" else part for part in parts)
            for parts in (self.history, self.added)
        )
        return replace(self, kind=f"spoken_{self.kind}", history=history, added=added)

    def _body(self, parts: tuple[Part, ...], *, prompted: bool) -> dict[str, Any]:
        messages = [system(SYSTEM), user(QUESTION)]
        for part in parts:
            messages += _messages(part, self.reasoning)
        modes = {None: {}, True: THINKING, False: NO_THINKING}
        kwargs = {**modes[self.thinking], **self.kwargs}
        return body(messages, tools=self.tools, prompted=prompted, kwargs=kwargs)


_TURNS = (
    Growth("turn", (), ("answer", "user"), tools=False),
    Growth("turn_with_tools", (), ("answer", "user")),
)
_LOOPS = (
    Growth("first_step", (), ("step",)),
    Growth("tool_step", ("step",), ("step",)),
    Growth("steer", ("step",), ("user",), prompted=False),
    Growth("after_steer", ("step", "user"), ("answer", "user")),
    Growth("after_loop", ("step",), ("answer", "user")),
)
KINDS = (*_TURNS, *_LOOPS, *(loop.spoken() for loop in _LOOPS))
"""``spoken_``: the same with a word beside each call."""


def growths(thinking: bool | None) -> tuple[Growth, ...]:
    """Every kind of growth with thinking as given, with the reasoning sent again and not."""
    reasoning = (False,) if thinking is False else (True, False)
    return tuple(
        replace(kind, reasoning=sent, thinking=thinking) for kind in KINDS for sent in reasoning
    )


def body(
    messages: list[Message],
    *,
    tools: bool = False,
    prompted: bool = True,
    kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A chat request body as it goes on the wire."""
    made: dict[str, Any] = {"messages": messages, "add_generation_prompt": prompted}
    if tools:
        made["tools"] = TOOLS
    if kwargs:
        made["chat_template_kwargs"] = dict(kwargs)
    return made


def system(text: str) -> Message:
    """A system message."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """A user message."""
    return {"role": "user", "content": text}


def assistant(text: str, reasoning: bool = False) -> Message:
    """An assistant's answer; its reasoning under the names that either server reads."""
    return {"role": "assistant", "content": text, **_reasoning(reasoning)}


def call(
    reasoning: bool = False,
    arguments: str | None = None,
    ids: tuple[str, ...] = (CALL_ID,),
) -> Message:
    """An assistant's tool calls, one for each id."""
    given = json.dumps(ARGUMENTS) if arguments is None else arguments
    return {
        "role": "assistant",
        "content": "",
        **_reasoning(reasoning),
        "tool_calls": [
            {
                "id": name,
                "type": "function",
                "function": {"name": "get_weather", "arguments": given},
            }
            for name in ids
        ],
    }


def result(text: str = RESULT, call_id: str = CALL_ID) -> Message:
    """A tool's result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _messages(part: Part, reasoning: bool) -> list[Message]:
    match part:
        case "user":
            return [user(FOLLOW_UP)]
        case "answer":
            return [assistant(FINAL, reasoning)]
        case "step":
            return [call(reasoning), result()]
        case "spoken":
            return [{**call(reasoning), "content": REMARK}, result()]


def _reasoning(sent: bool) -> Message:
    return {"reasoning": REASONING, "reasoning_content": REASONING} if sent else {}
