"""Is no hazard missed, and none made up, in sessions that the profile has never seen?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.tokens.conversations import NO_THINKING, THINKING
from kvagent.tokens.hazards import Parting
from kvagent.tokens.mending import mending
from kvagent.tokens.profile import TemplateProfile, profile_of
from kvagent.tokens.template import ChatTemplate, TemplateError
from tests.tokens.test_template_table import TEMPLATES, template_in
from tests.tokens.toy_templates import Toy

Message = dict[str, Any]

MODES = {None: {}, True: THINKING, False: NO_THINKING}

words = st.text("abcdefgh ,.21", min_size=1, max_size=30).map(lambda text: f"w{text}w")
ids = st.text("abcdefgh0123456789", min_size=9, max_size=9)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a session: how many of the messages it has, and how it grew to that."""

    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation to which messages are only added."""

    messages: list[Message]
    requests: list[Request]
    tools: list[Message] | None
    thinking: bool | None
    reasoning: bool
    system: bool

    def growths(self) -> Iterator[tuple[str, int, int]]:
        """The growth's name and the sizes of both requests."""
        mode = {None: "", True: "_thinking", False: "_no_thinking"}[self.thinking]
        bare = "" if self.reasoning or self.thinking is False else "_bare"
        for one, other in zip(self.requests, self.requests[1:], strict=False):
            yield other.kind + mode + bare, one.size, other.size


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    thinking = draw(st.sampled_from([None, True, False]))
    reasoning = thinking is not False and draw(st.booleans())
    tools, spoken = draw(st.booleans()), draw(st.booleans())

    def assistant(content: str, **more: Any) -> Message:
        thought = draw(words) if reasoning else None
        named = dict.fromkeys(("reasoning", "reasoning_content", "thinking"), thought)
        return {"role": "assistant", "content": content, **(named if reasoning else {}), **more}

    def call(name: str) -> Message:
        arguments = draw(st.dictionaries(st.sampled_from("abc"), words, min_size=1))
        return {
            "id": name,
            "type": "function",
            "function": {"name": "get_weather", "arguments": arguments},
        }

    system = draw(st.booleans())
    messages: list[Message] = [{"role": "system", "content": draw(words)}] if system else []
    messages.append(_asked(draw(words), messages))
    requests = [Request(len(messages), "")]
    for _ in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(0, 2)) if tools else 0):
            kind = "tool_step" if messages[-1]["role"] == "tool" else "first_step"
            names = draw(st.lists(ids, min_size=1, max_size=2))
            text = draw(words) if spoken else ""
            messages.append(assistant(text, tool_calls=[call(name) for name in names]))
            messages += (
                {"role": "tool", "tool_call_id": name, "content": draw(words)} for name in names
            )
            requests.append(Request(len(messages), kind))
        in_loop = messages[-1]["role"] == "tool"
        if in_loop and draw(st.booleans()):
            kind = "steer"
        else:
            after = "after_loop" if in_loop else "after_steer"
            turn = "turn_with_tools" if tools else "turn"
            steered = messages[-2:-1] and messages[-2]["role"] == "tool"
            kind = after if in_loop or steered else turn
            messages.append(assistant(draw(words)))
        messages.append(_asked(draw(words), messages))
        requests.append(Request(len(messages), kind))
    if spoken:
        requests = [
            one if one.kind.startswith("turn") else Request(one.size, f"spoken_{one.kind}")
            for one in requests
        ]
    return Session(messages, requests, _tools() if tools else None, thinking, reasoning, system)


def _asked(text: str, messages: list[Message]) -> Message:
    """A question like no other: Mistral's templates take one that repeats the last for the last."""
    return {"role": "user", "content": f"{text} {len(messages)}"}


def _tools() -> list[Message]:
    properties = {name: {"type": "string", "description": "A word"} for name in "abc"}
    parameters = {"type": "object", "properties": properties}
    function = {"name": "get_weather", "description": "Weather", "parameters": parameters}
    return [{"type": "function", "function": function}]


def check(template: ChatTemplate, profile: TemplateProfile, session: Session) -> None:
    """Every growth of the session fares as the profile says: it holds, or it does not.

    What moves a system message harms none of the sessions that have no such message.
    """
    for name, small, large in session.growths():
        outcome = profile.outcomes[name]
        prompted = not name.startswith(("steer", "spoken_steer"))
        try:
            before, after = (
                template.render(
                    session.messages[:size],
                    session.tools,
                    add_generation_prompt=asks,
                    variables=MODES[session.thinking],
                )
                for size, asks in ((small, prompted), (large, True))
            )
        except TemplateError:
            refused = outcome.lost is None or profile.hazard("without_tools")
            assert refused, f"{name} is refused and the profile does not say so"
            return  # what comes later contains what was refused
        holds = Parting.of(before, after).lost == 0
        expected = outcome.lost == 0
        assert holds == expected or (holds and not session.system), (
            f"{name}: {outcome}, and yet\n{before}\n---\n{after}"
        )


@cache
def profiled(template: ChatTemplate) -> TemplateProfile:
    return profile_of(template)


@cache
def compiled(file: Path) -> ChatTemplate:
    return template_in(file)


@pytest.mark.parametrize("name", TEMPLATES)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=25)
@given(session=sessions())
def test_no_hazard_of_a_real_template_is_missed(shared: Path, name: str, session: Session) -> None:
    template = compiled(shared / "data" / "chat_templates" / f"{name}.jinja")
    check(template, profiled(template), session)


toys = st.builds(
    Toy,
    **{
        name: st.booleans() if kind is bool else st.sampled_from(get_args(kind))
        for name, kind in get_type_hints(Toy).items()
        if kind is not str
    },
    switch=st.sampled_from(["", "preserve_thinking", "clear_thinking == false", "my_switch"]),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=100)
@given(toy=toys, session=sessions())
def test_no_hazard_of_any_template_is_missed(toy: Toy, session: Session) -> None:
    template = ChatTemplate(toy.source())
    check(template, profile_of(template), session)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(toy=toys)
def test_the_mending_never_makes_it_worse_and_json_keeps_all(toy: Toy) -> None:
    profile = profile_of(ChatTemplate(toy.source()))
    assert TemplateProfile.parse(profile.json()) == profile
    assert json.loads(profile.json())["template"] == profile.template
    for name, outcome in profile.switched.items():
        assert (outcome.lost is None) <= (profile.outcomes[name].lost is None)
    lost, plain = (
        sum(fared[name].lost or 0 for name in profile.switched)
        for fared in (profile.switched, profile.outcomes)
    )
    assert lost <= plain
    assert bool(mending(profile).chat_template_kwargs) == (lost < plain)
