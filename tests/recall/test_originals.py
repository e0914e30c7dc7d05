"""Is an original kept to the byte, through a restart, and from every other tenant?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvagent import Engine, Evict, Policy, Recall, Tokens
from tests.recall.asking import FINAL, LONG, TOOLS, Model, asks, handle_in, history, told
from tests.scripted import Scripted
from tests.wire import say


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nb\r\nc",
        "a\nb\n",
        "ä🙂\u2028x\n\nb\x00\x1b[31m",
        "one line",
        "\n\n \nx",
        "\ufeffa\n",
    ],
)
def test_a_text_comes_back_to_the_byte(text: str) -> None:
    scripted = Scripted(evict=Evict(trigger=Tokens(10), keep=200))
    long = text * 3_000
    scripted.send(history(long))
    assert scripted.engine.recall(handle_in(scripted.last)) == long


def test_a_handle_survives_a_restart(tmp_path: Path) -> None:
    def engine() -> Engine:
        return Engine(Policy(probe=False), store=tmp_path / "store.sqlite")

    scripted = Scripted(engine())
    scripted.send(history())
    assert engine().recall(handle_in(scripted.last), lines=7) == "line 7: job 55433 took 217 ms\n"


def test_another_tenant_is_told_nothing(tmp_path: Path) -> None:
    def engine(namespace: str) -> Engine:
        policy = Policy(probe=False, recall=Recall())
        return Engine(policy, store=tmp_path / "store.sqlite", namespace=namespace)

    scripted = Scripted(engine("one"))
    scripted.send(history(), tools=TOOLS)
    handle = handle_in(scripted.last)
    other = Scripted(engine("two"))
    with pytest.raises(KeyError, match="keeps no original"):
        other.engine.recall(handle)
    other.send([say("user", "Hello.")], Model(asks(handle), FINAL), tools=TOOLS)
    assert "keeps no original" in told(other)[0]
    assert "job" not in told(other)[0]
    with pytest.raises(KeyError):
        scripted.engine.recall(handle, namespace="two")
    assert other.engine.recall(handle, namespace="one") == LONG
