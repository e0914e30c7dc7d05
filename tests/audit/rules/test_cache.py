"""Is it told when the server has not kept what it had computed?"""

from __future__ import annotations

from typing import Any

from kvagent.audit.prediction import Target
from kvagent.audit.transcript import Hashed, Item, Place
from kvagent.audit.turns import Analysis
from kvagent.backends.simulation import Settings
from tests.audit.logs import SYSTEM, request, session, user
from tests.audit.rules.audited import finding, findings

LONG = "The quick brown fox jumps over the lazy dog. " * 120


def taking_turns(count: int, rounds: int = 3) -> list[Item]:
    """Conversations that share nothing and take turns."""
    log: list[Item] = []
    for turn in range(rounds):
        for number in range(count):
            messages = [user(f"Task {number}. {LONG}")]
            for step in range(turn):
                messages.append({"role": "assistant", "content": f"step {step} of {number}"})
                messages.append(user(f"go on {step} {number}"))
            log.append(request(messages, len(log) + 1))
    return log


def blocks(count: int | None, size: int = 16) -> Analysis:
    return Analysis(target=Target("vllm", block_size=size, blocks=count))


def slots(count: int) -> Analysis:
    target = Target("llama.cpp", slots=count, settings=Settings(host_cache_mib=0))
    return Analysis(target=target)


def test_a_cache_too_small_for_all_conversations() -> None:
    found = finding(taking_turns(4), "KVA402", blocks(120))
    assert "1,920 tokens" in found.said
    assert found.count == 8  # all but the first requests
    assert len({spot.conversation for spot in found.spots}) == 4
    assert found.tokens > 8 * 1_000


def test_a_cache_that_holds_them_all() -> None:
    assert not findings(taking_turns(4), "KVA402", blocks(400))
    assert not findings(taking_turns(1), "KVA402", blocks(120))
    assert not findings(taking_turns(4), "KVA402", blocks(None))


def test_more_conversations_than_slots() -> None:
    found = finding(taking_turns(3), "KVA403", slots(2))
    assert found.count == 6
    assert found.tokens > 6 * 1_000
    assert not findings(taking_turns(3), "KVA403", slots(3))
    assert not findings(taking_turns(1), "KVA403", slots(1))


def test_a_first_request_loses_no_slot() -> None:
    """Conversations with the same head: what stands in another slot was never this one's."""
    log = [request([{**SYSTEM, "content": LONG}, user(name)], n) for n, name in enumerate("abc")]
    assert not findings(log, "KVA403", slots(3))


def test_a_head_that_goes_to_and_fro_loses_no_slot() -> None:
    """What the slot does not have was not sent just before: the head is at fault."""
    prompts = session("a", 8, 1)
    heads = ({**SYSTEM, "content": LONG}, {**SYSTEM, "content": f"Look. {LONG}"})
    log = [request([heads[n % 2], *prompt[1:]], n) for n, prompt in enumerate(prompts)]
    assert not findings(log, "KVA403", slots(1))


def test_a_beginning_shorter_than_a_block() -> None:
    log = taking_turns(1, 6)
    found = finding(log, "KVA401", blocks(None, 2_096))
    assert "2,096 tokens" in found.said
    assert found.count == 5
    assert found.tokens > 5 * 1_000
    assert not findings(log, "KVA401", blocks(None, 16))
    short = [request(prompt, n) for n, prompt in enumerate(session("a", 3, 1), 1)]
    assert not findings(short, "KVA401", blocks(None, 2_096))


def test_a_request_that_does_not_read_the_cache() -> None:
    prompts = session("a", 4, 1)

    def log(options: dict[str, Any]) -> list[Item]:
        return [request(prompt, n, options=options) for n, prompt in enumerate(prompts, 1)]

    found = finding(log({"prompt_logprobs": 1}), "KVA410", blocks(10_000))
    assert found.rule.severity == "error"
    assert found.tokens > 0
    assert not findings(log({}), "KVA410", blocks(10_000))
    assert not findings(log({"logprobs": True}), "KVA410", blocks(10_000))


def test_a_trace_without_texts() -> None:
    """Two prompts of ten blocks that take turns: room for eleven is too little for both."""
    log = [
        Hashed(Place("trace.jsonl", n), range(100 * (n % 2), 100 * (n % 2) + 10), 512, 5_120)
        for n in range(6)
    ]
    found = finding(log, "KVA402", blocks(11 * 32))
    assert found.count == 4
    assert found.spots[0].place.line == 2
    assert not findings(log, "KVA402", blocks(30 * 32))
