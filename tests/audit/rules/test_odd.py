"""Does nothing that a log may hold make the rules of head and history fail?"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.audit.transcript import Place, Request
from tests.audit.rules.sightings import sightings

KEYS = ("role", "content", "text", "type", "id", "function", "arguments", "name", "x", "reasoning")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(("{}", '{"a":1,"b":2}', '{"b": 2, "a": 1}', "now: 12:00", "now: 12:01")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*KEYS, "parameters", "properties")), inner, max_size=4)
    ),
    max_leaves=8,
)
LONG = st.sampled_from(("a result that is long enough to be known again", "and another such text"))
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(("system", "user", "assistant", "tool", "function", "developer"))},
    optional={
        "content": LONG | VALUES,
        "tool_calls": st.lists(VALUES, max_size=2) | VALUES,
        "tool_call_id": VALUES,
        "reasoning_content": VALUES,
        "name": VALUES,
        "cache_control": VALUES,
    },
)
TOOLS = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3), max_size=3)
OPTIONS = st.dictionaries(
    st.sampled_from(("chat_template_kwargs", "reasoning_effort", "documents", "model")),
    VALUES,
    max_size=2,
)


@st.composite
def logs(draw: st.DrawFn) -> list[Request]:
    """Requests that mostly repeat messages of the one before, in any order and form."""
    sent: list[Request] = []
    messages: list[Any] = draw(st.lists(MESSAGES, min_size=1, max_size=6))
    for line in range(draw(st.integers(2, 5))):
        options: dict[str, Any] = {
            "conversation": draw(st.sampled_from((None, "a"))),
            "departs": draw(st.sampled_from((None, None, "branch", "compaction", "clearing"))),
        }
        tools, more = draw(TOOLS), draw(OPTIONS)
        sent.append(Request(Place("log", line), list(messages), tools, more, **options))
        kept = draw(st.lists(st.sampled_from(messages), max_size=4))
        messages = draw(st.sampled_from((messages, kept))) + draw(st.lists(MESSAGES, max_size=2))
        messages = messages or draw(st.lists(MESSAGES, min_size=1, max_size=2))
    return sent


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(logs())
def test_any_log(log: list[Request]) -> None:
    for each in sightings(log):
        spot, sent = each.spot, next(one for one in log if one.place == each.spot.place)
        assert each.said.endswith(".")
        assert spot.tokens >= 0
        assert spot.turn > 1 or each.rule.code == "KVA109"
        assert spot.message is None or 0 <= spot.message < len(sent.messages)
        assert spot.tool is None or 0 <= spot.tool <= len(sent.tools)
        assert spot.character is None or spot.character >= 0
