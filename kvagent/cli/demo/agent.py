"""What happens in one run of the demo's agent, and what does the server say that it cost?"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kvagent.cli.demo import tools
from kvagent.cli.demo.habits import with_habits
from kvagent.cli.demo.script import SYSTEM, Call, Step, opening, steps
from kvagent.cli.demo.tools import Toolbox

if TYPE_CHECKING:
    from openai import OpenAI

MAX_TOKENS = 16
"""Of a reply. Generating is not what is shown here."""

STOP = "\n<tool_call>"
"""Where the model begins a call, the script goes on: it knows the call to make."""


VARIED = {
    "frequency_penalty": 0.3,
    "dry_multiplier": 1.5,
    "dry_base": 1.75,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 8192,
}
"""llama.cpp's sampler against repetition: so small a model would say the same sentence in every turn. A strong penalty
on single tokens would do it too, but makes the model spell words in ways that cost the prefix when they come back."""


class ReplyError(Exception):
    """The server's answer lacks a figure that the demo is about."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its reply, in tokens as the server counted them, and seconds as they were measured."""

    label: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    ttft_s: float

    @property
    def prefilled_tokens(self) -> int:
        """Prompt tokens that the server had to compute."""
        return self.prompt_tokens - self.cached_tokens


class Agent:
    """A scripted agent with real tools; with a clock it also has every habit of ``habits.py``.

    Args:
        client: the only thing in which the runs differ.
        toolbox: the tools, bound to a repository.
        clock: read once a turn for the system prompt; None makes an agent without bad habits, which replays what it
            sent byte for byte.
        record: gets each request body and the reply to it.
        on_turn: gets each turn when it has finished.
    """

    def __init__(
        self,
        client: OpenAI,
        toolbox: Toolbox,
        clock: Callable[[], datetime] | None,
        *,
        model: str = "smollm2",
        max_tokens: int = MAX_TOKENS,
        record: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
        on_turn: Callable[[Turn], None] | None = None,
    ) -> None:
        self._client = client
        self._toolbox = toolbox
        self._clock = clock
        self._model = model
        self._max_tokens = max_tokens
        self._record = record
        self._on_turn = on_turn
        self._rng = random.Random(4711)
        self._messages: list[dict[str, Any]] = []

    def run(self, script: Iterable[Step] | None = None) -> list[Turn]:
        """Play the script from its first step to its last.

        Raises:
            ReplyError: the server does not report cached tokens.
            openai.OpenAIError: whatever the client raises.
        """
        if script is None:
            script = steps(self._toolbox.root)
        self._resume()
        turns: list[Turn] = []
        for number, step in enumerate(script, 1):
            if step.user is not None:
                self._messages.append({"role": "user", "content": step.user})
            turn, text = self._ask(step)
            self._settle(number, step.calls, text)
            turns.append(turn)
            if self._on_turn is not None:
                self._on_turn(turn)
        return turns

    def _resume(self) -> None:
        user, call, answer = opening(self._toolbox.root)
        self._messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": user},
        ]
        self._settle(0, (call,), "")
        self._settle(0, (), answer)

    def _settle(self, number: int, calls: tuple[Call, ...], text: str) -> None:
        """Keep the reply, with the script's calls added, and the results of the calls."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}_{index}",
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
                }
                for index, call in enumerate(calls)
            ]
        self._messages.append(message)
        for index, call in enumerate(calls):
            result = self._toolbox.call(call.tool, call.arguments)
            self._messages.append(
                {"role": "tool", "tool_call_id": f"call_{number}_{index}", "content": result}
            )

    def _body(self) -> dict[str, Any]:
        messages, definitions = self._messages, tools.DEFINITIONS
        if self._clock is not None:
            messages, definitions = with_habits(messages, definitions, self._clock(), self._rng)
        return {
            "model": self._model,
            "messages": list(messages),
            "tools": definitions,
            "temperature": 0,
            "max_tokens": self._max_tokens,
            "stop": [STOP],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _ask(self, step: Step) -> tuple[Turn, str]:
        body = self._body()
        start = time.perf_counter()
        first: float | None = None
        text, finish, last = "", None, None
        for chunk in self._client.chat.completions.create(**body, extra_body=VARIED):
            last = chunk
            for choice in chunk.choices:
                if choice.delta.content:
                    first = first or time.perf_counter()
                    text += choice.delta.content
                finish = choice.finish_reason or finish
        end = time.perf_counter()
        usage = last.usage if last is not None else None
        details = usage.prompt_tokens_details if usage is not None else None
        if last is None or usage is None or details is None or details.cached_tokens is None:
            raise ReplyError("The server's last chunk does not say how many tokens were cached.")
        if self._record is not None:
            # The last chunk carries all that is not text, the server's own extra fields too.
            reply = last.model_dump(exclude_unset=True)
            message = {"role": "assistant", "content": text}
            reply["object"] = "chat.completion"
            reply["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
            self._record({**body, **VARIED}, reply)
        turn = Turn(
            label=step.label,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=details.cached_tokens,
            completion_tokens=usage.completion_tokens,
            ttft_s=(first or end) - start,
        )
        return turn, text
