"""Does a tenant ever see a value of another's head?"""

from __future__ import annotations

import json

import pytest

from kvagent import Volatile
from tests.stages.pin_head.heads import LONG, breaks, system, user
from tests.wire import Message, Wire, call, compact, result, say

TENANT = "Customer: {}\nSession 123e4567-e89b-12d3-a456-{}\nCurrent time: 04:{}\nYou help."
PATTERN = Volatile(patterns=(r"Customer: (?P<value>\w+)",))


@pytest.mark.parametrize("reply", ["long", "short", "call"])
@pytest.mark.parametrize("dumps", [1, 2])
def test_tenants_with_the_same_words_never_see_each_other(reply: str, dumps: int) -> None:
    """Same texts, same replies, same ids of calls; what differs are the values in the head."""
    values = {"ada": "ada000000001", "bab": "bab000000002", "dad": "dad000000003"}
    wire = Wire(volatile=PATTERN)
    histories = {name: [user("Hello")] for name in values}

    made = {"long": say("assistant", LONG), "short": say("assistant", "ok")}

    def turn(name: str, number: int) -> None:
        text = TENANT.format(name, values[name], 10 + number)
        answer = made.get(reply) or call(f"call-{number}")
        history = histories[name]
        dump = json.dumps if number % dumps else compact
        sent = wire.send([system(text), *history], answer, dump=dump)
        for other in values.keys() - {name}:
            assert other not in json.dumps(sent)
        assert name in json.dumps(sent)
        following = user("Go on.") if reply in made else result(f"call-{number}", "r")
        histories[name] = [*history, answer, following]

    for number in range(4):
        for name in values:
            turn(name, number)
    for number in range(4, 8):
        turn("ada", number)
    for number in range(4, 8):  # the others follow on the same words
        turn("bab", number)
        turn("dad", number)


@pytest.mark.parametrize(
    "examples",
    [
        [say("assistant", LONG)],
        [user("Example"), call("call-1"), result("call-1", "r"), say("assistant", LONG)],
    ],
    ids=["greeting", "few-shot"],
)
def test_examples_in_the_prompt_are_no_sign_of_the_same_conversation(
    examples: list[Message],
) -> None:
    wire = Wire(volatile=PATTERN)
    for name in ("ada", "bob"):
        wire.send([system(f"Customer: {name}"), *examples, user("Hello")], say("assistant", "Hi."))
    assert "ada" not in json.dumps(wire.bodies[1])


def test_a_tenant_whose_beginning_was_not_seen_gets_no_others_values() -> None:
    wire = Wire(volatile=PATTERN)
    short = say("assistant", "Hi.")
    for name in ("ada", "bob"):  # from now on, customers are told apart
        wire.send([system(f"Customer: {name}"), user("Hello")], short)
    sent = wire.send([system("Customer: eve"), user("Hello"), short, user("More?")], short)
    assert "ada" not in json.dumps(sent)
    assert "bob" not in json.dumps(sent)
    assert breaks(wire) == [("volatile_text", 1)]
