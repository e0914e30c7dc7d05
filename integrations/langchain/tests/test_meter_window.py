"""Does the meter tell how full a window is, and learn its size from a refusal?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from integrations.openai.tests.null_server import Answer, NullServer
from kvagent import Event, Overflowed, WindowFilling
from kvagent_langchain.meter import KVMeter

from .caching_model import CachingModel
from .talks import chat, pending, question, talk


def test_the_window_fills() -> None:
    told: list[Event] = []
    meter = KVMeter(window=300, warn_at=(0.5, 0.9), on_event=told.append)
    talk(meter, 8)
    assert [e.share for e in told if isinstance(e, WindowFilling)] == [0.5, 0.9]
    (conversation,) = meter.conversations
    assert conversation.window == 300
    assert conversation.window_share == conversation.newest_prompt_tokens / 300  # type: ignore[operator]
    assert conversation.turns_left == 0
    assert "turns left" in meter.report()


def test_a_window_for_each_model() -> None:
    meter = KVMeter(window={"small": 1_000})
    talk(meter, 1, model=CachingModel(model="small"))
    talk(meter, 1, model=CachingModel(model="large"))
    assert [each.window for each in meter.conversations] == [1_000, None]


@pytest.mark.parametrize("options", [{"window": 0}, {"window": {"m": -1}}, {"warn_at": (80,)}])
def test_wrong_settings_are_told_at_once(options: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        KVMeter(**options)


REFUSED = Answer(
    json.dumps(
        {
            "error": {
                "message": "This model's maximum context length is 512 tokens. However, you "
                "requested 700 tokens in the messages, Please reduce the length of the messages.",
                "type": "BadRequestError",
                "code": 400,
            }
        }
    ).encode(),
    status=400,
)


def test_a_refusal_teaches_the_window(server: NullServer) -> None:
    told: list[Event] = []
    meter = KVMeter(on_event=told.append)
    model = chat(server, max_retries=0)
    server.scripted.append(REFUSED)
    with pytest.raises(Exception, match="maximum context length"):
        model.invoke([question(0)], {"callbacks": [meter]})
    assert meter.turns == 0
    (overflow,) = told
    assert isinstance(overflow, Overflowed)
    assert (overflow.prompt_tokens, overflow.window) == (700, 512)
    model.invoke([question(1)], {"callbacks": [meter]})
    assert meter.conversations[-1].window == 512
    assert pending(meter) == (0, 0)
