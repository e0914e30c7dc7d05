"""What is said of old messages that do not stay as they were?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvagent.audit.rule import Sighting
from tests.audit.logs import SYSTEM, TOOLS, Message, call, reply, request, result, user
from tests.audit.rules.sightings import findings, of_prompts, sightings

JSON = '{"city":"Bonn","unit":"C"}'
OLD = [
    SYSTEM,
    user("Please look at the file, and then tell me the weather."),
    call("read", "call_1", '{"path":"a.py","deep":true}'),
    result("three lines of text, and no more than that", "call_1"),
    {**call("weather", "call_2", JSON), "reasoning_content": "The weather is asked for."},
    result('{"degrees": 20, "wind": "none"}', "call_2"),
    reply("It has three lines, and it is 20 degrees in Bonn."),
    user("go on"),
]
NEW = [*OLD, call("read", "call_3"), result("the other file", "call_3")]

REMINDER = "<system-reminder>The list of things to do is empty.</system-reminder>"


def after(change: Callable[[list[Message]], Any], old: Sequence[Message] = OLD) -> list[Sighting]:
    """What is seen if the old messages come back changed."""
    new = [*map(dict, old)]
    change(new)
    return of_prompts(list(old), [*new, *NEW[len(OLD) :]], tools=TOOLS)


def setting(at: int, **fields: Any) -> Callable[[list[Message]], None]:
    return lambda messages: messages[at].update(fields)


def arguments(text: str) -> list[Any]:
    return call("weather", "call_2", text)["tool_calls"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "code", "at", "field", "character"),
    [
        (
            setting(4, tool_calls=arguments('{"unit":"C","city":"Bonn"}')),
            "KVA201",
            4,
            "tool_calls[0].function.arguments",
            2,
        ),
        (
            setting(4, tool_calls=arguments('{"city": "Bonn", "unit": "C"}')),
            "KVA201",
            4,
            "tool_calls[0].function.arguments",
            8,
        ),
        (setting(5, content='{"wind": "none", "degrees": 20}'), "KVA202", 5, "content", 2),
        (setting(5, content='{"degrees":20,"wind":"none"}'), "KVA202", 5, "content", 11),
        (setting(1, content="Please look at this file."), "KVA203", 1, "content", 17),
        (setting(3, content="three lines of code"), "KVA203", 3, "content", 15),
        (setting(6, content=OLD[6]["content"] + " "), "KVA203", 6, "content", 49),
        (setting(4, reasoning_content=None), "KVA208", 4, "reasoning_content", 0),
    ],
)
def test_one_message(
    change: Callable[[list[Message]], None], code: str, at: int, field: str, character: int
) -> None:
    (seen,) = after(change)
    spot = seen.spot
    assert (seen.rule.code, spot.turn, spot.message) == (code, 2, at)
    assert (spot.field, spot.character, spot.behind) == (field, character, "")
    assert spot.tokens > 0 or code == "KVA208"
    assert spot.contrast is not None


@pytest.mark.parametrize(
    "change",
    [
        setting(6, refusal=None, annotations=[], tool_calls=[]),
        setting(4, content=None),
        setting(6, content=[{"type": "text", "text": OLD[6]["content"]}]),
        setting(4, reasoning_content=None, reasoning="The weather is asked for."),
        lambda messages: messages.__setitem__(3, dict(reversed(messages[3].items()))),
    ],
)
def test_forms_that_are_the_same_text_to_a_server(
    change: Callable[[list[Message]], None],
) -> None:
    assert after(change) == []


def test_two_messages_edited_in_one_turn() -> None:
    def change(messages: list[Message]) -> None:
        setting(3, content="three lines of code")(messages)
        setting(6, content="It has three lines, and it is 21 degrees in Bonn.")(messages)

    seen = after(change)
    assert [(each.rule.code, each.spot.message, each.spot.character) for each in seen] == [
        ("KVA203", 3, 15),
        ("KVA203", 6, 31),
    ]
    assert [each.spot.behind for each in seen] == ["", "KVA203"]
    assert seen[1].spot.tokens == 0


def test_a_clock_in_an_old_message() -> None:
    old = [SYSTEM, user("Look.\nCurrent time: 12:00:01\nNow read it, all of it."), *OLD[2:]]
    (seen,) = after(setting(1, content=old[1]["content"].replace(":01", ":59")), old)
    assert (seen.rule.code, seen.spot.character) == ("KVA203", 26)
    assert "clock" in seen.said


def test_messages_removed_and_put_in() -> None:
    (seen,) = after(lambda messages: messages.__delitem__(slice(2, 4)))
    assert (seen.rule.code, seen.spot.message, seen.count) == ("KVA204", 2, 1)
    assert seen.spot.tokens > 20
    (seen,) = after(lambda messages: messages.insert(4, user("These documents were found.")))
    assert (seen.rule.code, seen.spot.message, seen.count) == ("KVA206", 4, 1)
    assert seen.spot.excerpt == "These documents were found."


def test_ids_made_anew() -> None:
    def change(messages: list[Message]) -> None:
        messages[2] = call("read", "call_x", '{"path":"a.py","deep":true}')
        messages[3] = result(messages[3]["content"], "call_x")

    seen = after(change)
    assert [(each.rule.code, each.spot.message) for each in seen] == [("KVA209", 2), ("KVA209", 3)]
    assert [each.spot.field for each in seen] == ["tool_calls[0].id", "tool_call_id"]
    assert {each.spot.tokens for each in seen} == {0}


def long_history(turns: int) -> list[Message]:
    messages = [SYSTEM, user("Please do the whole task.")]
    for turn in range(turns):
        messages += [
            call("read", f"call_{turn}", f'{{"path":"{turn}.py"}}'),
            result(f"{turn}: " + "a line of the file\n" * 20, f"call_{turn}"),
        ]
    return messages


@pytest.mark.parametrize("kept", [1, 2])
def test_a_window_that_slides(kept: int) -> None:
    """The last eight messages, with or without the task."""
    prompts = []
    for turns in range(2, 12):
        whole = long_history(turns)
        prompts.append([*whole[:kept], *whole[max(kept, len(whole) - 8) :]])
    (found,) = findings(of_prompts(*prompts, tools=TOOLS))
    assert found.rule.code == "KVA205"
    assert [spot.turn for spot in found.spots] == list(range(11 - len(found.spots), 11))
    assert found.count == len(found.spots) >= 6
    assert {spot.message for spot in found.spots} == {kept}
    assert found.tokens > 1_000


def test_one_cut_is_no_window() -> None:
    prompts = [long_history(turns) for turns in range(2, 9)]
    for prompt in prompts[4:]:
        del prompt[2:6]
    (found,) = findings(of_prompts(*prompts, tools=TOOLS))
    assert (found.rule.code, found.count, found.spots[0].turn) == ("KVA204", 1, 5)


def cleared(messages: list[Message], places: Sequence[int]) -> list[Message]:
    return [
        {**message, "content": "[cleared]"} if at in places else message
        for at, message in enumerate(messages)
    ]


def test_results_cleared_at_once_are_a_note() -> None:
    prompts = [long_history(turns) for turns in range(2, 9)]
    prompts[4:] = [cleared(prompt, (3, 5, 7)) for prompt in prompts[4:]]
    (found,) = findings(of_prompts(*prompts, tools=TOOLS))
    assert (found.rule.code, found.rule.severity, found.count) == ("KVA210", "note", 3)
    assert [(spot.turn, spot.message) for spot in found.spots] == [(5, 3), (5, 5), (5, 7)]


def test_results_cleared_turn_after_turn_are_a_window() -> None:
    prompts = [cleared(long_history(turns), range(3, 2 * turns - 4, 2)) for turns in range(2, 12)]
    (found,) = findings(of_prompts(*prompts, tools=TOOLS))
    assert found.rule.code == "KVA205"
    assert found.count >= 5


def test_a_result_shortened_once_it_is_old() -> None:
    prompts = [cleared(long_history(turns), range(3, 2 * turns + 1, 2)) for turns in range(2, 7)]
    (found,) = findings(of_prompts(*prompts, tools=TOOLS))
    assert found.rule.code == "KVA203"
    assert "before it is sent" in found.fix


@pytest.mark.parametrize("tagged", [True, False])
def test_a_reminder_that_moves_on(tagged: bool) -> None:
    """Turn after turn it is taken out of the old message and stands in the newest."""
    reminder = REMINDER if tagged else "Remember that the list of things to do is empty."
    asked = [SYSTEM, user("Please do task one.")]
    prompts = []
    for turn in range(4):
        prompts.append(
            [*asked[:-1], {**asked[-1], "content": f"{asked[-1]['content']}\n\n{reminder}"}]
        )
        asked += [reply(f"I have done task {turn} as you said."), user(f"Now do task {turn}.")]
    (found,) = findings(of_prompts(*prompts, tools=TOOLS))
    assert (found.rule.code, found.count) == ("KVA207", 3)
    assert [spot.message for spot in found.spots] == [1, 3, 5]
    assert found.spots[0].character == len("Please do task one.")


def test_a_message_that_moves_on() -> None:
    history = OLD[:-1]
    prompts = [
        [*history, user(REMINDER)],
        [*history, user("go on"), reply("I go on with what I have to do."), user(REMINDER)],
    ]
    seen = of_prompts(*prompts, tools=TOOLS)
    assert {each.rule.code for each in seen} <= {"KVA203", "KVA206", "KVA207"}


class TestWhatIsNoFault:
    def test_going_back(self) -> None:
        other = [*OLD[:6], user("No, leave the weather alone.")]
        assert of_prompts(OLD, NEW, other, [*other, reply("Well."), user("go on")]) == []

    def test_a_retry(self) -> None:
        assert of_prompts(OLD, OLD, NEW, NEW) == []

    def test_three_that_fan_out(self) -> None:
        tasks = [[*OLD, user(f"Do part {at} of it, please.")] for at in range(3)]
        later = [[*task, reply(f"Part {at} is done."), user("ok")] for at, task in enumerate(tasks)]
        assert of_prompts(OLD, *tasks, *later) == []

    def test_the_last_question_written_anew(self) -> None:
        other = [*OLD[:-1], user("go on, but look at the second file first")]
        assert of_prompts(OLD, other) == []


def test_a_compaction_is_a_note() -> None:
    long = long_history(12)
    text = "This session is continued from a previous conversation. " + "Files were read. " * 20
    seen = sightings(
        [
            request(long, 1, tools=TOOLS),
            request([SYSTEM, user(text), *long[-4:], user("go on")], 2, tools=TOOLS),
        ]
    )
    assert [(each.rule.code, each.rule.severity) for each in seen] == [("KVA210", "note")]
    assert seen[0].spot.message == 1
    assert seen[0].spot.tokens > 0


def test_of_many_changes_in_one_turn_the_first_are_told() -> None:
    def written(spaced: str) -> list[Message]:
        text = '{"path": "a", "deep": 1}' if spaced else '{"deep": 1, "path": "a"}'
        return [
            *OLD[:2],
            *[
                each
                for at in range(60)
                for each in (
                    call("read", f"c{at}", text),
                    result(f"{at}: a line of text", f"c{at}"),
                )
            ],
        ]

    (found,) = findings(of_prompts(written(" "), [*written(""), user("go on")], tools=TOOLS))
    assert (found.rule.code, found.count) == ("KVA201", 60)
    assert [spot.message for spot in found.spots] == [2, 4, 6]


def test_what_a_transcript_tells_of_itself() -> None:
    """Results that it says were cleared, however short they were."""
    old = [*OLD[:6], reply("It is warm in Bonn, and there is no wind."), user("go on")]
    new = [*cleared(old, (3,)), *NEW[-2:]]
    (seen,) = sightings([request(old, 1), request(new, 2, departs="clearing")])
    assert (seen.rule.code, seen.spot.message) == ("KVA210", 3)
    assert sightings([request(old, 1), request(new, 2, departs="branch")]) == []


def test_a_compaction_into_the_system_prompt_is_a_note() -> None:
    long = long_history(12)
    told = f"{SYSTEM['content']}\n\nSummary of the conversation so far: files were read."
    for head in (
        [{**SYSTEM, "content": told}],
        [SYSTEM, {"role": "system", "content": told.partition("\n\n")[2]}],
    ):
        (seen,) = of_prompts(long, [*head, *long[-6:], user("go on")], tools=TOOLS)
        assert (seen.rule.code, seen.spot.message) == ("KVA210", len(head) - 1)
