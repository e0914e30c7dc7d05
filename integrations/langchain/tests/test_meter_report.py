"""Does the report say all that was counted, in a narrow terminal too?"""

from __future__ import annotations

from io import StringIO
from typing import get_args

from rich.console import Console

from kvagent.events import Cause, MissCause
from kvagent_langchain.meter import KVMeter
from kvagent_langchain.report import CAUSES
from kvagent_langchain.tally import Conversation

from .caching_model import CachingModel
from .talks import clock, helper, slid, talk


def test_the_report_fits_in_80_columns() -> None:
    meter = KVMeter(window=100_000)
    talk(meter, 6, head=clock, metadata={"thread_id": "4b0a2c4e-0e6e-4d0a-9f0e-1f1f6f0c5a11"})
    talk(meter, 6, edit=slid, model=CachingModel(model="some-organisation/some-model-70b[awq]"))
    for number in range(20):
        talk(meter, 2, head=helper(number))
    said = meter.report()
    assert max(map(len, said.splitlines())) <= 80
    tables = [line for line in said.splitlines() if line.startswith(("model ", "conversation "))]
    assert [line.split()[-2:] for line in tables] == [["breaks", "lost"]] * 2
    assert said == str(meter)
    assert f"{meter.turns} turns" in said.splitlines()[0]
    assert f"and {len(meter.conversations) - 12} smaller ones" in said
    assert "volatile_text" in said
    assert "messages_removed" in said
    shown = StringIO()
    Console(width=80, force_terminal=True, file=shown).print(meter)
    assert "52 turns" in shown.getvalue()
    assert "\x1b[31mvolatile_text" in shown.getvalue()
    assert repr(meter).startswith("<KVMeter: 52 turns, ")


def test_an_empty_report() -> None:
    assert KVMeter().report() == "0 turns, 0 prompt tokens\n0 prefix breaks"


def test_every_cause_is_explained() -> None:
    by_stages = {
        "arguments_reserialised",
        "carrying_costs",
        "reasoning_dropped",
        "repeated_result",
        "result_too_long",
        "window_crowded",
        "window_full",
    }
    """Of edits that nothing but a stage makes, and none runs here."""
    assert CAUSES.keys() == {*get_args(Cause), *get_args(MissCause)} - by_stages


def test_conversations_are_copies() -> None:
    meter = KVMeter()
    talk(meter, 2)
    (conversation,) = meter.conversations
    assert isinstance(conversation, Conversation)
    conversation.turns = 99
    assert meter.conversations[0].turns == 2
