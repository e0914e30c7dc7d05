"""Is each hazard found where it is, with its evidence, and mended by what mends it?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from kvagent.tokens.conversations import (
    FINAL,
    FIRST_CLOCK,
    REASONING,
    RESULT,
    SYSTEM,
    TOOL_NOTE,
    Probe,
    Refused,
)
from kvagent.tokens.hazards import MEANINGS, Hazard, Mend, Parting
from kvagent.tokens.mending import Mending, mending
from kvagent.tokens.profile import TemplateProfile, answered, profile_of, profile_template
from kvagent.tokens.template import ChatTemplate, TemplateError
from tests.tokens.toy_templates import Toy


def profiled(toy: Toy) -> TemplateProfile:
    return profile_of(ChatTemplate(toy.source()))


def found(profile: TemplateProfile, where: str) -> Hazard:
    hazard = profile.hazard(where)
    assert hazard is not None, f"nothing found at {where}"
    return hazard


def evidence(hazard: Hazard) -> Parting:
    assert hazard.parting is not None
    return hazard.parting


KEPT = Mending(chat_template_kwargs={}, resend_reasoning=True, system_message=False, left={})
"""Nothing need be done."""


def test_a_template_that_keeps_every_prefix() -> None:
    profile = profiled(Toy(arguments="text"))
    # No growth, no date, nothing to mend; its arguments are read and dumped by the server.
    assert [(hazard.code, hazard.where) for hazard in profile.hazards] == [
        ("arguments_rewritten", "arguments")
    ]
    assert {str(outcome) for outcome in profile.outcomes.values()} == {"ok"}
    assert profile.reasoning == "always"
    assert mending(profile, date(2031, 1, 2)) == KEPT


def test_parting() -> None:
    parting = Parting.of("one two", "one three")
    assert (parting.at, parting.lost) == (5, 2)
    assert parting.around(3) == ("e t", "wo", "hre")
    assert Parting.of("one", "one two").lost == 0
    assert Parting.of("one two", "one").lost == 4


class TestReasoning:
    def test_dropped_once_the_loop_is_over(self) -> None:
        profile = profiled(Toy(reasoning="loop"))
        assert profile.reasoning == "loop"
        for where in ("steer", "after_loop"):
            hazard = found(profile, where)
            assert hazard.code == "reasoning_dropped"
            before = evidence(hazard).before
            assert REASONING in before[evidence(hazard).at :]
            assert REASONING not in evidence(hazard).after
            assert hazard.mended_by == (Mend("omit_reasoning", 0),)
        assert profile.hazard("tool_step") is None
        assert profile.hazard("after_loop_bare") is None
        assert mending(profile).resend_reasoning is False
        assert mending(profile).left == {}

    @pytest.mark.parametrize(
        ("switch", "kwargs"),
        [
            ("preserve_thinking", {"preserve_thinking": True}),
            ("clear_thinking is defined and not clear_thinking", {"clear_thinking": False}),
            ("not drop_thinking | default(true)", {"drop_thinking": False}),
            ("keep_past_thinking", {"keep_past_thinking": True}),
            ("a_name_that_nobody_knows", {"a_name_that_nobody_knows": True}),
        ],
    )
    def test_a_switch_is_found_by_trying(self, switch: str, kwargs: dict[str, Any]) -> None:
        profile = profiled(Toy(reasoning="loop", switch=switch))
        assert Mend("chat_template_kwargs", 0, kwargs) in found(profile, "after_loop").mended_by
        assert mending(profile) == replace(KEPT, chat_template_kwargs=kwargs)

    def test_known_names_are_tried_where_the_variables_are_not_known(self) -> None:
        template = ChatTemplate(Toy(reasoning="loop", switch="preserve_thinking").source())
        profile = answered(profile_template("served"), local(template))
        assert profile.settled == {"preserve_thinking": True}
        assert profile.outcomes == profile_of(template).outcomes

    def test_the_preserve_flags_are_a_column(self) -> None:
        assert profiled(Toy(reasoning="loop")).row()["… + preserve flags"].startswith("DIV")
        assert profiled(Toy(reasoning="loop", switch="preserve_thinking")).row()[
            "… + preserve flags"
        ] == ("ok")

    def test_a_switch_that_takes_text_away_does_not_help(self) -> None:
        """Without its loop the prompt would hold; but that is no way to keep a conversation."""
        source = (
            "{% for m in messages if not (brief and m.role != 'user') %}[{{ m.role }}]"
            "{{ m.content }}{% if m.reasoning_content and not loop.last %}"
            "{% if messages[-1].role == 'tool' %}{{ m.reasoning_content }}{% endif %}{% endif %}"
            "{% endfor %}"
        )
        profile = profile_of(ChatTemplate(source))
        assert found(profile, "after_loop").code == "reasoning_dropped"
        assert profile.settled == {}

    def test_a_switch_that_changes_the_first_prompt_is_left_alone(self) -> None:
        """What an unknown switch does to the model's task, nobody knows."""
        toy = Toy(reasoning="loop", switch="strict")
        source = toy.source().replace("<s>", "<s>{% if strict %}Be strict.{% endif %}")
        assert profile_of(ChatTemplate(source)).settled == {}

    def test_an_empty_thought_that_goes_later(self) -> None:
        """Without the reasoning an empty thought stands in the loop, and goes with it."""
        hazard = found(profiled(Toy(reasoning="emptied")), "after_loop_bare")
        assert hazard.code == "turn_rewritten"
        assert "<think></think>" in evidence(hazard).before

    def test_never_rendered(self) -> None:
        profile = profiled(Toy(reasoning="never"))
        assert profile.reasoning == "never"
        assert mending(profile).resend_reasoning is None


class TestGenerationPrompt:
    def test_an_opened_thought(self) -> None:
        profile = profiled(Toy(ask="think"))
        hazard = found(profile, "turn_bare")
        assert hazard.code == "generation_prompt"
        assert evidence(hazard).around(7) == ("orrow\n[A]"[-7:], "<think>", FINAL[:7])
        assert hazard.mended_by[0] == Mend("resend_reasoning", 0)
        assert profile.hazard("turn") is None
        assert mending(profile).resend_reasoning is True

    def test_thinking_switched_off(self) -> None:
        profile = profiled(Toy(ask="closed"))
        assert found(profile, "turn_no_thinking").code == "generation_prompt"
        assert profile.hazard("turn") is None
        assert profile.row()["no-think turn+user"] == "DIV(-15)"


class TestHead:
    def test_tools_before_the_last_user_message(self) -> None:
        profile = profiled(Toy(tools="last_user"))
        hazard = found(profile, "after_loop")
        assert hazard.code == "tools_moved"
        assert TOOL_NOTE in evidence(hazard).before[evidence(hazard).at :]
        assert profile.positions == ("SYS", "U1", "TOOLS", "U2")
        assert profile.hazard("tool_step") is None
        assert mending(profile).left.keys() >= {"after_loop", "turn_with_tools"}

    def test_tools_in_the_first_user_message_stay(self) -> None:
        profile = profiled(Toy(tools="first_user"))
        assert profile.positions == ("SYS", "TOOLS", "U1", "U2")
        assert profile.hazard("after_loop") is None

    def test_no_tools(self) -> None:
        profile = profiled(Toy(tools="nowhere"))
        assert found(profile, "tools").code == "ignored"
        assert profile.row()["tools position"] == "tools not rendered"

    def test_the_system_message_before_the_last_user_message(self) -> None:
        hazard = found(profiled(Toy(system="last_user")), "turn")
        assert hazard.code == "system_moved"
        assert SYSTEM in evidence(hazard).before[evidence(hazard).at :]

    def test_a_late_system_message_at_the_head(self) -> None:
        profile = profiled(Toy(system="joined"))
        assert found(profile, "late_system").code == "system_moved"
        assert profile.row()["mid system msg"].startswith("DIV")

    def test_a_late_system_message_refused(self) -> None:
        profile = profiled(Toy(system="strict"))
        assert found(profile, "late_system").code == "refused"
        assert "comes first" in found(profile, "late_system").detail
        assert profile.row()["mid system msg"] == "err"

    def test_a_late_system_message_in_its_place(self) -> None:
        assert profiled(Toy()).hazard("late_system") is None


class TestDate:
    def test_in_every_prompt(self) -> None:
        profile = profiled(Toy(date="always"))
        hazard = found(profile, "date")
        assert hazard.code == "date_in_prompt"
        assert evidence(hazard).around(9)[0] == "Today is "
        assert hazard.mended_by == ()
        assert profile.row()["date dep"] == "strftime_now,nosys"

    def test_pinned_by_the_request(self) -> None:
        profile = profiled(Toy(date="pinned"))
        (mend,) = found(profile, "date").mended_by
        assert mend.kwargs.keys() == {"date_string"}
        assert mending(profile, date(2031, 1, 2)).chat_template_kwargs == {
            "date_string": "02 Jan 2031"
        }
        assert mending(profile).chat_template_kwargs == {}
        assert profile.row()["date dep"] == "strftime_now,date_string kwarg,nosys"

    def test_only_without_a_system_message(self) -> None:
        profile = profiled(Toy(system="own", date="own"))
        assert profile.hazard("date") is None
        assert found(profile, "date_without_system").mended_by == (Mend("system_message", 0),)
        assert mending(profile).system_message
        assert profile.row()["date dep"] == "nosys"

    @pytest.mark.parametrize(
        "style",
        ["%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d.%m.%Y", "%b %d %Y", "%m/%d/%Y", "%-d %B %Y"],
    )
    @pytest.mark.parametrize("day", [FIRST_CLOCK, FIRST_CLOCK.replace(day=3, hour=0)])
    def test_a_server_has_its_own_clock(self, style: str, day: datetime) -> None:
        """It cannot be set: its day is looked for, as usually written."""
        source = Toy(date="always").source().replace("%d.%m.%Y", style)
        template = ChatTemplate(source, now=lambda: day)
        profile = answered(profile_template("served", today=day.date()), local(template))
        hazard = found(profile, "date")
        assert hazard.code == "date_in_prompt"
        assert evidence(hazard).around(9)[0] == "Today is "

    def test_a_date_of_the_past_is_no_clock(self) -> None:
        source = Toy().source().replace("<s>", "<s>Knowledge until 1 June 2025.")
        today = date(2031, 6, 1)
        profile = answered(profile_template("x", today=today), local(ChatTemplate(source)))
        assert profile.dates == ()


class TestMessages:
    def test_the_end_of_a_result_depends_on_what_follows(self) -> None:
        profile = profiled(Toy(results="reopened"))
        hazard = found(profile, "tool_step")
        assert hazard.code == "turn_rewritten"
        shared, before, after = evidence(hazard).around(len(RESULT))
        assert (shared, before[0], after[0]) == (RESULT, ".", ";")

    def test_results_share_a_turn(self) -> None:
        hazard = found(profiled(Toy(results="merged")), "parallel_calls")
        assert hazard.code == "results_merged"
        assert hazard.lost == 1
        assert profiled(Toy()).hazard("parallel_calls") is None

    @pytest.mark.parametrize(
        ("arguments", "read", "as_text"),
        [
            ("json", "`, `/`: `", "DOUBLE-ENC"),
            ("text", "`, `/`: `", "verbatim"),
            ("xml", "XML/py-like", "err"),
            ("nowhere", "not rendered", "n/a"),
        ],
    )
    def test_arguments(self, arguments: Any, read: str, as_text: str) -> None:
        profile = profiled(Toy(arguments=arguments))
        row = profile.row()
        assert (row["args render"], row["args if str"]) == (read, as_text)
        rewritten = "ignored" if arguments == "nowhere" else "arguments_rewritten"
        assert found(profile, "arguments").code == rewritten

    def test_compact_arguments(self) -> None:
        compact = (
            Toy()
            .source()
            .replace("arguments | tojson", "arguments | tojson(separators=(',', ':'))")
        )
        assert profile_of(ChatTemplate(compact)).arguments == "`,`/`:`"

    def test_white_space_goes(self) -> None:
        profile = profiled(Toy(trims=True))
        assert {h.where for h in profile.hazards if h.code == "content_trimmed"} == {
            "white_space_user",
            "white_space_assistant",
            "white_space_tool",
        }
        assert "content_trimmed" not in profiled(Toy()).worst()

    def test_ids_of_calls(self) -> None:
        assert "call_ids_rendered" in profiled(Toy(ids=True)).worst()
        assert "call_ids_rendered" not in profiled(Toy()).worst()

    def test_words_beside_a_call_that_go_with_the_loop(self) -> None:
        profile = profiled(Toy(speaks="dropped"))
        assert found(profile, "spoken_after_loop").code == "turn_rewritten"
        assert profile.hazard("after_loop") is None

    def test_roles_that_are_refused(self) -> None:
        source = (
            "{% for m in messages %}{% if m.role in ('user', 'assistant') %}[{{ m.role }}]"
            "{{ m.content }}{% else %}{{ raise_exception('No ' + m.role) }}{% endif %}{% endfor %}"
        )
        profile = profile_of(ChatTemplate(source))
        assert found(profile, "system").detail == "No system"
        assert found(profile, "tool").detail == "No tool"
        assert found(profile, "turn").code == "refused"
        assert set(profile.row().values()) >= {"err", "tools not rendered", "none"}

    def test_a_template_that_refuses_everything(self) -> None:
        profile = profile_of(ChatTemplate("{{ raise_exception('Not today') }}"))
        assert {hazard.code for hazard in profile.hazards} == {"refused"}
        assert mending(profile).chat_template_kwargs == {}

    def test_a_template_that_wants_tools(self) -> None:
        source = Toy().source().replace("<s>", "<s>{% for tool in tools %}{% endfor %}")
        profile = profile_of(ChatTemplate(source))
        assert found(profile, "without_tools").code == "refused"
        assert str(profile.outcomes["turn"]) == "ok"


class TestAsking:
    def test_nothing_is_asked_twice(self) -> None:
        asked: list[Probe] = []
        template = ChatTemplate(Toy(reasoning="loop", ask="closed").source())

        def render(probe: Probe) -> str | Refused:
            asked.append(probe)
            return local(template)(probe)

        answered(profile_template("x", template.undeclared), render)
        assert len({repr(probe) for probe in asked}) == len(asked)

    def test_a_server_is_asked_only_what_it_can_answer(self) -> None:
        template = ChatTemplate(Toy(date="pinned").source())

        def render(probe: Probe) -> str | Refused:
            assert probe.now == FIRST_CLOCK
            assert not probe.as_given
            return local(template)(probe)

        profile = answered(profile_template("x", today=FIRST_CLOCK.date()), render)
        assert profile.arguments_as_text is None
        assert profile.row()["args if str"] == ""


class TestKept:
    def test_json_and_back(self) -> None:
        profile = profiled(Toy(reasoning="loop", switch="preserve_thinking", date="pinned"))
        assert TemplateProfile.parse(profile.json()) == profile

    def test_damaged_or_of_another_version(self) -> None:
        kept = profiled(Toy()).json()
        with pytest.raises(ValidationError):
            TemplateProfile.parse(kept[:-9])
        with pytest.raises(ValueError, match="version 99"):
            TemplateProfile.parse(kept.replace(b'"version":1', b'"version":99'))

    def test_hazards_say_what_they_are(self) -> None:
        for toy in (Toy(reasoning="loop"), Toy(system="strict", arguments="xml")):
            for hazard in profiled(toy).hazards:
                assert MEANINGS[hazard.code] in str(hazard)
                assert hazard.where in str(hazard)

    def test_a_place_names_one_hazard(self) -> None:
        toy = Toy("loop", "", "think", "nowhere", "strict", "merged", "xml", "always")
        for profile in (profiled(toy), profiled(replace(toy, ids=True, trims=True))):
            places = [hazard.where for hazard in profile.hazards]
            assert len(places) > 10
            assert len(set(places)) == len(places)

    def test_the_first_thing_that_moves_is_the_cause(self) -> None:
        """The reasoning goes too, but the tools stood before it."""
        profile = profiled(Toy(reasoning="loop", tools="last_user"))
        assert found(profile, "after_loop").code == "tools_moved"
        assert found(profiled(Toy(reasoning="loop")), "after_loop").code == "reasoning_dropped"


def local(template: ChatTemplate) -> Callable[[Probe], str | Refused]:
    """A server that has this template and a clock of its own."""

    def render(probe: Probe) -> str | Refused:
        messages = [dict(message) for message in probe.body["messages"]]
        for message in messages:
            for call in message.get("tool_calls", ()):
                arguments = call["function"]["arguments"]
                if isinstance(arguments, str):
                    function = {**call["function"], "arguments": json.loads(arguments)}
                    message["tool_calls"] = [
                        {**call, "function": function} for call in message["tool_calls"]
                    ]
        try:
            return template.render(
                messages,
                probe.body.get("tools"),
                add_generation_prompt=probe.body["add_generation_prompt"],
                variables=probe.body.get("chat_template_kwargs"),
            )
        except TemplateError as error:
            return Refused(str(error))

    return render
