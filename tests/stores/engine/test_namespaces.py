"""Does what one namespace or session keeps stay from every other?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvagent import PrefixBroken, session
from tests.stores.engine.processes import HELLO, LONG, system, wire
from tests.wire import call, kept, result, say


def test_what_one_namespace_keeps_another_cannot_recall(path: Path) -> None:
    one, two = wire(path, namespace="one"), wire(path, namespace="two")
    sent = one.send([HELLO, call("c1"), result("c1", LONG)])
    handle = sent[2]["content"].split("kept as ")[1].split("]")[0]
    assert one.engine.recall(handle) == LONG
    assert two.engine.recall(handle, namespace="one") == LONG
    with session("s", namespace="one"):
        assert two.engine.recall(handle) == LONG
    with pytest.raises(KeyError, match="another namespace"):
        two.engine.recall(handle)


@pytest.mark.parametrize("durable", [True, False])
def test_a_session_names_the_namespace(path: Path, durable: bool) -> None:
    """Two tenants say the very same words; each has its own id."""
    used = wire(path if durable else None)
    histories = {"one": [HELLO], "two": [HELLO]}
    ids = {
        "one": "11111111-1111-4111-8111-111111111111",
        "two": "22222222-2222-4222-8222-222222222222",
    }
    for number in range(4):
        for tenant, history in histories.items():
            with session("ticket", namespace=tenant):
                sent = used.send(
                    [system(f"Account {ids[tenant]}"), *history], say("assistant", "ok")
                )
            text = json.dumps(sent)
            assert ids[tenant] in text
            assert not any(other in text for name, other in ids.items() if name != tenant)
            assert "[note]" not in text, "an id that never changed within its namespace stays"
            history += [say("assistant", "ok"), say("user", f"next {number}")]
    assert not used.of(PrefixBroken)


def test_a_clock_seen_in_one_namespace_is_no_first_value_in_another(path: Path) -> None:
    for tenant, build in (("one", "17ab99c"), ("two", "93cd11e"), ("two", "93cd11e")):
        sent = wire(path, namespace=tenant).send([system(f"Commit {build}."), HELLO])
        assert sent[0]["content"] == f"Commit {build}."


def test_sessions_of_one_namespace_are_apart() -> None:
    used = wire(None)
    for number in range(2):
        for name in ("first", "second"):
            run = "1111111" if name == "first" else "2222222"
            ticked = f"{run}{number}-0000-4000-8000-000000000000"
            history = [HELLO, say("assistant", "ok"), say("user", "next")][: 1 + 2 * number]
            sent = used.send(
                [system(f"Run {ticked}"), *history], say("assistant", "ok"), session=name
            )
            assert ("2222222" if name == "first" else "1111111") not in json.dumps(sent)
    assert kept(used.bodies[0], used.bodies[2])
    assert kept(used.bodies[1], used.bodies[3])
