"""What is said of a head that does not stay as it was?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent.audit.rule import Sighting
from tests.audit.logs import TOOLS, Message, call, reply, request, result, user
from tests.audit.rules.sightings import codes, findings, of_prompts, sightings

RULES_TEXT = "\n".join(f"Rule {number}: be careful with step {number}." for number in range(20))
BODY = [
    user("Please look at the file."),
    call("read", "call_1", '{"path":"a.py","deep":true}'),
    result("three lines of text, and no more than that", "call_1"),
]
MORE = [*BODY, reply("It has three lines of text, as far as I see."), user("go on")]


def system(text: Any) -> Message:
    return {"role": "system", "content": text}


def between(old: Any, new: Any) -> list[Sighting]:
    return of_prompts([system(old), *BODY], [system(new), *MORE], tools=TOOLS)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("Current time: 12:00:01", "Current time: 12:00:59", "KVA101"),
        ("Today is Monday.", "Today is Tuesday.", "KVA101"),
        ("Today's date is 2026-01-31", "Today's date is 2026-02-01", "KVA101"),
        ("## Current date\n\n2026-01-31", "## Current date\n\n2026-02-01", "KVA101"),
        ("now=1764476107", "now=1764476110", "KVA101"),
        (
            "x-anthropic-billing-header: cc_version=2.1; cch=3f8a1;",
            "x-anthropic-billing-header: cc_version=2.1; cch=0c9b2;",
            "KVA102",
        ),
        (
            "Session 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "Session 3f2504e0-4f89-11d3-9a0c-0305e82c3302",
            "KVA102",
        ),
        ("request id: abc123", "request id: abd124", "KVA102"),
        ("Commit 3f2504ee", "Commit 0c9b2f11", "KVA102"),
        ("Memory: likes cats", "Memory: likes dogs", "KVA103"),
        ("You have 3000 tokens left", "You have 2000 tokens left", "KVA103"),
        ("", "More. ", "KVA103"),
    ],
)
@pytest.mark.parametrize("in_front", [True, False])
def test_what_changes_in_a_system_prompt(old: str, new: str, code: str, in_front: bool) -> None:
    one, other = (
        f"{text}\n{RULES_TEXT}" if in_front else f"{RULES_TEXT}\n{text}" for text in (old, new)
    )
    (seen,) = between(one, other)
    spot = seen.spot
    assert (seen.rule.code, spot.turn, spot.message, spot.field) == (code, 2, 0, "content")
    pairs = zip(one + "\0", other + "\1", strict=False)
    at = next(at for at, pair in enumerate(pairs) if pair[0] != pair[1])
    assert spot.character == at
    assert spot.contrast is not None
    for text, shown in ((one, spot.contrast.before), (other, spot.contrast.after)):
        assert text[at:].startswith(shown[spot.contrast.offset :])
        assert "\n" not in shown.strip("\n")  # no more of the prompt than the line
    assert spot.tokens > (10 if in_front else 0)
    if code == "KVA103":
        assert ("in front" in seen.said) is in_front


def test_a_clock_and_other_text_are_both_told() -> None:
    one = f"Current time: 12:00\n{RULES_TEXT}\nTo do: nothing\nRequest id: abc123\nEnd."
    other = f"Current time: 12:01\n{RULES_TEXT}\nTo do: all of it\nRequest id: abc124\nEnd."
    seen = between(one, other)
    assert [each.rule.code for each in seen] == ["KVA101", "KVA103", "KVA102"]
    assert [each.spot.behind for each in seen] == ["", "KVA101", "KVA101"]
    assert [bool(each.spot.tokens) for each in seen] == [True, False, False]
    places = [each.spot.character for each in seen]
    assert places == [other.index("1\n"), other.index("all of it"), other.index("4\nEnd")]


def test_a_line_with_a_clock_and_a_counter() -> None:
    seen = between(
        f"{RULES_TEXT}\nIt is now 12:00, and 500 steps are left of {12}.",
        f"{RULES_TEXT}\nIt is now 12:01, and 499 steps are left of {12}.",
    )
    assert [each.rule.code for each in seen] == ["KVA101", "KVA103"]


def test_text_that_does_not_change_is_no_fault() -> None:
    """A date, a version or an id that stays."""
    text = f"Released 2026-01-31, commit 3f2504ee. {RULES_TEXT}"
    assert between(text, text) == []


def test_a_clock_that_ticks_with_every_request_is_one_finding() -> None:
    prompts = [
        [system(f"{RULES_TEXT}\nCurrent time: 12:{turn:02}"), *MORE, *[user("on")] * turn]
        for turn in range(20)
    ]
    (found,) = findings(of_prompts(*prompts))
    assert (found.rule.code, found.count, len(found.spots)) == ("KVA101", 19, 19)


def test_parts_of_text() -> None:
    def parts(*texts: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": text} for text in texts]

    clock = ["Current time: 12:00", "Current time: 12:01"]
    (seen,) = between(parts(RULES_TEXT, clock[0]), parts(RULES_TEXT, clock[1]))
    assert (seen.rule.code, seen.spot.field) == ("KVA101", "content[1].text")
    assert seen.spot.character == len(clock[0]) - 1
    (seen,) = between(parts(RULES_TEXT), parts("Skills: none.", RULES_TEXT))
    assert (seen.rule.code, seen.spot.field) == ("KVA103", "content[0].text")


def test_another_form_of_the_same_text() -> None:
    parts = [{"type": "text", "text": RULES_TEXT}]
    assert between(RULES_TEXT, parts) == []  # servers are given the same text
    (seen,) = between(f"{RULES_TEXT}\nEnd.", [*parts, {"type": "text", "text": "End."}])
    assert seen.rule.code == "KVA107"
    assert between(RULES_TEXT, [{**parts[0], "cache_control": {"type": "ephemeral"}}]) == []


def test_marks_for_a_cache_are_no_text() -> None:
    """The mark stands at the newest message and moves on with each request."""

    def marked(message: Message) -> Message:
        part = {"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}
        return {**message, "content": [part]}

    prompts = [[*MORE[:count], marked(MORE[count])] for count in range(2, 5)]
    prompts = [[system(RULES_TEXT), *prompt] for prompt in prompts]
    assert of_prompts(*prompts, tools=TOOLS) == []


def test_a_system_message_more_and_less() -> None:
    one, two = system(RULES_TEXT), system("Memories: none that matter.")
    (seen,) = of_prompts([one, *BODY], [two, one, *MORE])
    assert (seen.rule.code, seen.spot.message) == ("KVA103", 0)
    assert "added" in seen.said
    assert seen.spot.tokens > 100
    (seen,) = of_prompts([one, two, *BODY], [one, *MORE])
    assert (seen.rule.code, seen.spot.message) == ("KVA103", 1)
    assert "taken away" in seen.said


def with_tools(*lists: Any) -> list[Sighting]:
    prompts = [[system(RULES_TEXT), *(MORE if at else BODY)] for at in range(len(lists))]
    return sightings(
        request(prompt, at, tools=tools)
        for at, (prompt, tools) in enumerate(zip(prompts, lists, strict=True), 1)
    )


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


ABC = [tool(name, description=f"To {name}.") for name in ("open", "opens", "shut")]


@pytest.mark.parametrize(
    ("new", "code", "at", "field", "character", "words"),
    [
        ([ABC[1], ABC[0], ABC[2]], "KVA104", 0, "function.name", 4, "order"),
        ([ABC[0], ABC[2], ABC[1]], "KVA104", 1, "function.name", 0, "order"),
        ([*ABC, tool("more")], "KVA106", 3, "", 0, "added"),
        ([ABC[0], tool("more"), *ABC[1:]], "KVA106", 1, "", 0, "more"),
        (ABC[1:], "KVA106", 0, "", 0, "open"),
        (
            [ABC[0], tool("opens", description="To opens it."), ABC[2]],
            "KVA106",
            1,
            "function.description",
            8,
            "opens",
        ),
        (
            [tool("open", description="To open. Today is 2026-01-31."), *ABC[1:]],
            "KVA106",
            0,
            "function.description",
            8,
            "open",
        ),
    ],
)
def test_tools(new: list[Any], code: str, at: int, field: str, character: int, words: str) -> None:
    (seen,) = with_tools(ABC, new)
    spot = seen.spot
    assert (seen.rule.code, spot.message, spot.tool, spot.field) == (code, None, at, field)
    assert spot.character == character
    assert words in seen.said
    assert spot.tokens > 0


def test_a_clock_in_a_tool() -> None:
    old, new = (
        [*ABC, tool("search", description=f"Search. Today is {day}.")]
        for day in ("2026-01-31", "2026-02-01")
    )
    (seen,) = with_tools(old, new)
    assert (seen.rule.code, seen.spot.tool) == ("KVA101", 3)


def test_keys_of_tools_that_no_server_keeps() -> None:
    """vLLM and llama.cpp write a tool's own keys in an order of theirs, and leave out nulls."""
    other = [{"function": dict(reversed(each["function"].items())), **each} for each in ABC]
    assert with_tools(ABC, other) == []
    assert with_tools(ABC, [tool("open", description="To open.", strict=None), *ABC[1:]]) == []


def test_an_option_that_shapes_the_prompt() -> None:
    seen = sightings(
        request([system(RULES_TEXT), *prompt], at, options=options)
        for at, (prompt, options) in enumerate(
            (
                (BODY, {"reasoning_effort": "low", "temperature": 0, "model": "a"}),
                (MORE, {"reasoning_effort": "high", "temperature": 1, "model": "b"}),
            ),
            1,
        )
    )
    assert [(each.rule.code, each.spot.field) for each in seen] == [("KVA108", "reasoning_effort")]


def conversations(*heads: str, tools: Any = ()) -> list[Sighting]:
    lists = tools or [()] * len(heads)
    return sightings(
        request([system(head), user(f"Task {at}, which is a new one.")], at, tools=each)
        for at, (head, each) in enumerate(zip(heads, lists, strict=True))
    )


def test_heads_of_other_conversations() -> None:
    days = ["2026-01-31", "2026-02-01", "2026-02-01", "2026-02-02"]
    seen = conversations(*[f"Today is {day}.\n{RULES_TEXT * 2}" for day in days])
    (found,) = findings(seen)
    assert (found.rule.code, found.count) == ("KVA109", 2)
    assert [spot.conversation for spot in found.spots] == [1, 3]
    assert found.tokens > 200
    assert "clock" in found.said
    assert conversations(*[f"{RULES_TEXT * 2}\nToday is {day}." for day in days]) == []
    assert conversations(f"{RULES_TEXT * 2} For Anna.", f"For Otto. {RULES_TEXT * 2}") == []


def test_tools_of_other_conversations() -> None:
    many = [tool(f"tool{at}", description=RULES_TEXT) for at in range(4)]
    (seen,) = conversations(RULES_TEXT, RULES_TEXT, tools=[many, many[::-1]])
    assert (seen.rule.code, seen.spot.tool) == ("KVA109", 0)
    assert conversations(RULES_TEXT, RULES_TEXT, tools=[many, many[:-1]]) == []


class TestOtherAgents:
    """Sub-agents, routers and hand-offs are no fault."""

    ONE, OTHER = RULES_TEXT, "You choose who is to answer.\nSay a name and nothing else."

    def test_another_agent_is_asked_the_same(self) -> None:
        seen = sightings(
            [
                request([system(self.ONE), user("What is it?")], 1, tools=TOOLS),
                request([system(self.OTHER), user("What is it?")], 2),
                request([system(self.ONE), user("What is it?"), *BODY[1:]], 3, tools=TOOLS),
            ]
        )
        assert seen == []

    def test_a_hand_off_is_a_note(self) -> None:
        seen = sightings(
            [
                request([system(self.ONE), *BODY], 1, tools=TOOLS),
                request([system(self.OTHER), *MORE], 2, tools=ABC),
            ]
        )
        assert [(each.rule.code, each.rule.severity) for each in seen] == [("KVA110", "note")]

    def test_a_sub_agent_in_between(self) -> None:
        task = "Look for all the places in which the name is used."
        asked = call("agent", "call_2", f'{{"task":"{task}"}}')
        prompts = [
            [system(self.ONE), *BODY],
            [system(self.OTHER), user(task)],
            [system(self.OTHER), user(task), call("read", "x1"), result("some other file", "x1")],
            [system(self.ONE), *BODY, asked, result("It is used in two places.", "call_2")],
        ]
        assert of_prompts(*prompts, tools=TOOLS) == []


def test_no_codes_for_one_request() -> None:
    assert codes(of_prompts([system("Current time: 12:00"), *MORE])) == set()
