"""Which tiny conversations show what a chat template does to a prompt that only grows?

Each growth is a request and a later one that only adds messages to it. What stands where in a
prompt is found by the texts below, so none of them occurs in a template or in another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

Message = dict[str, Any]

SYSTEM = "You are a careful test assistant"
QUESTION = "What is the weather in Paris tomorrow"
REASONING = "I should look this up."
RESULT = "Sun, 21 degrees."
GREETING = "Hello!"
FINAL = "Bring a hat, no umbrella."
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


@dataclass(frozen=True, slots=True)
class Growth:
    """A request that grows by what it is named after.

    ``steps`` is how many finished tool steps the first request has; ``added`` what comes next.
    """

    name: str
    steps: int
    added: tuple[str, ...]
    reasoning: bool = True
    """Whether the assistant's reasoning is sent again."""
    prompted: bool = True
    """Whether the first prompt ends by asking for an answer. Where the user cuts in, none came."""
    tools: bool = True
    kwargs: Mapping[str, Any] | None = None

    def before(self) -> dict[str, Any]:
        """The first request's body."""
        return self._body(self._history(), prompted=self.prompted)

    def unprompted(self) -> dict[str, Any]:
        """The first request's body, with no generation prompt."""
        return self._body(self._history(), prompted=False)

    def after(self) -> dict[str, Any]:
        """The later request's body."""
        messages = self._history()
        for what in self.added:
            if what == "step":
                messages += step(self.reasoning)
            elif what == "user":
                messages.append(user(FOLLOW_UP))
            elif what == "system":
                messages.append(system(LATE))
            else:
                messages.append(assistant(FINAL if what == "final" else GREETING, self.reasoning))
        return self._body(messages, prompted=True)

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> Growth:
        """The same with more ``chat_template_kwargs``."""
        return replace(self, kwargs={**(self.kwargs or {}), **kwargs})

    def with_reasoning(self, reasoning: bool) -> Growth:
        """The same with the reasoning sent again or not."""
        return replace(self, reasoning=reasoning)

    def _history(self) -> list[Message]:
        messages = [system(SYSTEM), user(QUESTION)]
        for _ in range(self.steps):
            messages += step(self.reasoning)
        return messages

    def _body(self, messages: list[Message], *, prompted: bool) -> dict[str, Any]:
        return body(messages, tools=self.tools, prompted=prompted, kwargs=self.kwargs)


NO_THINKING: Mapping[str, Any] = {"enable_thinking": False, "thinking": False}
THINKING: Mapping[str, Any] = {"enable_thinking": True, "thinking": True}
PRESERVE: Mapping[str, Any] = {
    "preserve_thinking": True,
    "clear_thinking": False,
    "truncate_history_thinking": False,
    "drop_thinking": False,
}
"""What llama.cpp sets by itself where the template knows one of them."""

GROWTHS = (
    Growth("turn", 0, ("greeting", "user"), tools=False),
    Growth("turn_thinking", 0, ("greeting", "user"), tools=False, kwargs=THINKING),
    Growth(
        "turn_no_thinking",
        0,
        ("greeting", "user"),
        reasoning=False,
        tools=False,
        kwargs=NO_THINKING,
    ),
    Growth("turn_with_tools", 0, ("greeting", "user")),
    Growth("tool_step", 1, ("step",)),
    Growth("tool_step_bare", 1, ("step",), reasoning=False),
    Growth("steer", 1, ("user",), prompted=False),
    Growth("steer_bare", 1, ("user",), reasoning=False, prompted=False),
    Growth("after_loop", 1, ("final", "user")),
    Growth("after_loop_bare", 1, ("final", "user"), reasoning=False),
)
"""``_bare``: the same without the reasoning."""


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


def step(reasoning: bool) -> list[Message]:
    """A tool call and its result."""
    return [call(reasoning), result()]


def _reasoning(sent: bool) -> Message:
    return {"reasoning": REASONING, "reasoning_content": REASONING} if sent else {}
