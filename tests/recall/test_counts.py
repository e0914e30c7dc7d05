"""Is what was told within a turn counted once, and known without counts of the server?"""

from __future__ import annotations

from kvagent import PrefixBroken, Recall
from kvagent.events import Overflowed, TurnFinished
from tests.recall.asking import TOOLS, Model, asks, handle_in, history, recalling
from tests.scripted import Scripted, tokens_of
from tests.wire import kept, say


def test_what_was_told_is_counted_once() -> None:
    scripted = recalling()
    messages = history()
    for turn in range(6):
        model = Model(lambda handle: asks(handle, lines="1-200"), say("assistant", f"So {turn}."))
        scripted.send(messages, model, tools=TOOLS)
        messages = [*messages, say("assistant", f"So {turn}."), say("user", f"And {turn}?")]
    assert not scripted.of(Overflowed)
    assert not scripted.of(PrefixBroken)
    finished = scripted.of(TurnFinished)
    assert [event.turn for event in finished] == [1, 2, 3, 4, 5, 6]
    assert scripted.engine.meter.scale < 1.5
    ends = scripted.bodies[1::2]
    for event, body in zip(finished, ends, strict=True):
        assert event.prompt_tokens == tokens_of(body)
    assert all(kept(a, b) for a, b in zip(scripted.bodies, scripted.bodies[1:], strict=False))


def test_without_counts_the_estimates_hold_what_was_told() -> None:
    scripted = Scripted(recall=Recall(), window=12_000)
    messages = history()
    scripted.send(messages, say("assistant", "So."), tools=TOOLS)
    handle = handle_in(scripted.last)
    for turn in range(8):
        model = Model(
            asks(handle, lines="1-120"),
            say("assistant", f"So {turn}."),
            usage={"x": 1},
        )
        scripted.send(messages, model, tools=TOOLS)
        messages = [*messages, say("assistant", f"So {turn}."), say("user", f"And {turn}?")]
    assert max(map(tokens_of, scripted.bodies)) <= 12_000
