"""Does no request stop a check, however odd it is?"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.audit.prediction import Target
from kvagent.audit.transcript import Place, Reported, Request
from kvagent.audit.turns import Analysis
from tests.audit.rules.audited import session

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(("a", "b")) | VALUES,
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(("read", "write")) | VALUES,
                "arguments": st.sampled_from(("{}", "{", "x" * 3_000)) | VALUES,
            },
        )
        | VALUES,
    },
)
PARTS = st.fixed_dictionaries({}, optional={"text": st.text(max_size=9) | VALUES, "type": VALUES})
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(
            ("system", "user", "assistant", "tool", "function", "developer", "x")
        )
    },
    optional={
        "content": st.sampled_from(("same" * 600, "y " * 9_000))
        | VALUES
        | st.lists(PARTS, max_size=2),
        "tool_calls": st.lists(CALLS | VALUES, max_size=2) | VALUES,
        "tool_call_id": st.sampled_from(("a", "b")) | VALUES,
        "name": st.sampled_from(("read", "write")) | VALUES,
        "reasoning": VALUES,
        "function_call": VALUES,
    },
)
OPTIONS = st.dictionaries(
    st.sampled_from(("model", "cache_salt", "prompt_logprobs", "chat_template_kwargs", "lora")),
    VALUES,
    max_size=2,
)
ERRORS = st.none() | st.sampled_from(("", "prompt is too long: 9 tokens > 8 maximum")) | st.text()
COUNTS = st.none() | st.integers(0, 10_000)


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    messages: list[Any] = []
    made = []
    for line in range(draw(st.integers(1, 5))):
        if draw(st.booleans()) and messages:
            del messages[draw(st.integers(0, len(messages) - 1))]
        messages = [*messages, *draw(st.lists(MESSAGES, min_size=1, max_size=3))]
        tools = draw(st.lists(st.dictionaries(st.just("function"), VALUES, max_size=1), max_size=2))
        reported = Reported(draw(COUNTS), draw(COUNTS), draw(COUNTS))
        made.append(
            Request(
                Place("log.jsonl", line),
                messages,
                tools,
                draw(OPTIONS),
                reported=reported,
                error=draw(ERRORS),
                time_s=draw(st.none() | st.floats(0, 1e9)),
            )
        )
    return made


TARGETS = st.sampled_from((Target(), Target(window=50), Target(blocks=9), Target("llama.cpp")))


@settings(max_examples=100, deadline=None)
@given(requests(), TARGETS)
def test_all_checks_go_through(log: list[Request], target: Target) -> None:
    found = session(log, Analysis(target=target))
    assert len(found.rows) == len(log)
    for each in found.findings:
        assert each.count >= len(each.spots) > 0
        assert each.tokens >= 0
        assert each.said.endswith(".")
        assert each.tokens == 0 or each.rule.cost
        for spot in each.spots:
            assert spot.turn > 0
            if spot.message is not None and each.rule.code >= "KVA3":
                assert 0 <= spot.message < 20
