"""Is nothing said of sessions that only grow?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.audit.prediction import Target
from kvagent.audit.rule import Rule
from kvagent.audit.rules import BY_CODE, RULES
from kvagent.audit.turns import Analysis
from tests.audit.logs import TOOLS, Message, interleaved, request
from tests.audit.rules.audited import session

TARGETS = st.sampled_from(
    # (Of llama.cpp, sessions with the same head take each other's slot, however many there are.)
    (Target(), Target(window=32_768), Target(blocks=4_000), Target(block_size=128))
)


@settings(max_examples=60, deadline=None)
@given(interleaved(), TARGETS, st.booleans())
def test_sessions_that_only_grow(
    mixed: list[tuple[int, list[Message]]], target: Target, tools: bool
) -> None:
    log = [
        request(messages, at, tools=TOOLS if tools else (), conversation=f"c{number}")
        for at, (number, messages) in enumerate(mixed, 1)
    ]
    found = session(log, Analysis(target=target)).findings
    assert [each for each in found if each.rule.severity != "note"] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_says_what_why_and_what_to_do(rule: Rule) -> None:
    assert BY_CODE[rule.code] is rule
    for text in (rule.summary, rule.why, rule.fix):
        assert text.endswith(".")
    assert len(rule.summary) <= 120
    assert rule.name == rule.name.lower().replace(" ", "-")
    assert all(len(line) <= 100 for line in rule.example.splitlines())


def test_no_code_or_name_is_given_twice() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert [rule.code for rule in RULES] == sorted(rule.code for rule in RULES)
