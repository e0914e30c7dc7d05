"""Does an agent ever hear that a prompt was too long, whatever its session is?"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent import Bypassed, PrefixBroken
from tests.limits.windows import GOOD, Window, text
from tests.scripted import Scripted
from tests.wire import Message, call, result, say

STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "read", "write", "many", "say"]), st.integers(0, 120)),
    min_size=1,
    max_size=30,
)


def taken(number: int, step: tuple[str, int]) -> list[Message]:
    """What an agent adds in one turn."""
    kind, lines = step
    words = text(number, lines)
    if kind == "ask":
        return [say("user", f"Question {number}?")]
    if kind == "say":
        return [say("assistant", f"Thought {number}. {words}"), say("user", "Go on.")]
    if kind == "write":
        asked = call(f"c{number}", "write", {"path": f"{number}.py", "content": words})
        return [asked, result(f"c{number}", "done")]
    if kind == "read":
        return [call(f"c{number}", "read", {"path": f"{number}.py"}), result(f"c{number}", words)]
    calls = [call(f"c{number}.{n}", "read")["tool_calls"][0] for n in range(3)]
    results = [result(f"c{number}.{n}", text(number + n, lines // 2)) for n in range(3)]
    return [say("assistant", None, tool_calls=calls), *results]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    STEPS,
    st.integers(3_000, 9_000),
    st.sampled_from([0.7, 1.0, 1.3]),
    st.sampled_from([None, 0.5, 4.0]),
)
def test_no_session_of_an_agent_hears_of_it(
    steps: list[tuple[str, int]], window: int, scale: float, reported: float | None
) -> None:
    believed = None if reported is None else int(window * reported)
    scripted, server = Scripted(window=believed), Window(window, scale)
    messages = [say("system", "You help."), say("user", "Begin.")]
    for number, step in enumerate(steps):
        messages = [*messages, *taken(number, step)]
        assert scripted.send(messages, server).reply == GOOD
        messages = [*messages, GOOD, say("user", f"And {number}?")]
    assert not scripted.of(Bypassed)
    assert not scripted.of(PrefixBroken)
    assert server.refusals <= 3
