"""Does the narrative that no model wrote say what was concluded, and pass the checks?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvagent.compaction import facts_of
from kvagent.compaction import narrative as form
from kvagent.compaction.extractive import extractive
from kvagent.compaction.flow import compact
from tests.compaction.sessions import Message, assistant, recorded, used, user, words

SESSION: list[Message] = [
    user("Find out why the build fails."),
    *used("bash", "Error: no such module\nExit code 1", command="make"),
    assistant("I found that the cause is in Makefile.am: it names src/old.c, which is gone."),
    *used("edit", "ok", path="Makefile.am", new_string="x"),
    assistant('I chose "src/new.c" because it holds the same functions as the old file did.'),
    *used("todo", "ok", todos=[{"content": "mend it", "status": "done"}, {"content": "test it"}]),
    *used("read", "word " * 2_000, path="log.txt"),
    user("Now test it."),
    assistant("Next I will run the tests of the module."),
]


def test_it_tells_what_the_assistant_concluded() -> None:
    request = form.request({"messages": SESSION}, facts_of(SESSION), max_tokens=500)
    told = form.sections_of(extractive(request).text)
    assert told[form.CURRENT][0] == '- The user had asked: "Now test it."'
    assert told[form.DONE] == ['- Of the plan: "mend it"']
    assert told[form.PENDING] == ['- Of the plan: "test it"']
    assert any("because it holds the same functions" in line for line in told[form.DECIDED])
    assert any("no such module" in line for line in told[form.FAILED])
    assert any("Makefile.am" in line for line in told[form.FOUND])
    assert any("run the tests" in line for line in told[form.NEXT])


def test_it_says_the_same_with_the_instruction_in_the_last_message() -> None:
    before = SESSION[:-1]
    request = form.request({"messages": before}, facts_of(before), max_tokens=500)
    assert len(request["messages"]) == len(before)
    assert '"Now test it."' in extractive(request).text
    assert "eight sections" not in extractive(request).text


def test_nothing_at_all() -> None:
    assert form.is_nothing(form.sections_of(extractive({"messages": []}).text)[form.DONE])


@pytest.mark.parametrize(
    "name",
    [
        "claudecode_196820da",
        "claudecode_3fe1b6bc",
        "claudecode_9eda1058",
        "codex_rollout_019e1625",
        "pi_before-compaction",
    ],
)
def test_it_passes_the_checks_on_real_sessions(shared: Path, name: str) -> None:
    body = recorded(shared, name)
    messages = body["messages"]
    cuts = [i for i, message in enumerate(messages) if message["role"] == "user" and i > 20]
    for cut in cuts[:: max(1, len(cuts) // 5)] or [len(messages)]:
        source = messages[:cut]
        flow = compact(
            {**body, "messages": source},
            source,
            facts_of(source),
            budget=3_000,
            max_tokens=1_500,
            count_tokens=words,
        )
        with pytest.raises(StopIteration) as stopped:
            flow.send(extractive(next(flow)))
        assert stopped.value.value.refused == ()
