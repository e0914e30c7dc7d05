"""Is a message what ChatOpenAI sends of it, byte for byte?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage

from kvagent_langchain import wire

# Tests are no package, so there is no absolute name for this.
from ..messages import message_lists  # noqa: TID252
from .kinds import KINDS
from .sent import Sent, _of, chunks, dumped

rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_message_is_sent_as_kvagent_says(sent: Sent, kind: str) -> None:
    message = KINDS[kind]
    before = deepcopy(message)
    assert dumped([wire.message(message)]) == sent.messages([message])
    assert message == before


@rule
@given(messages=message_lists)
def test_random_messages_are_sent_as_kvagent_says(sent: Sent, messages: list[BaseMessage]) -> None:
    before = deepcopy(messages)
    assert dumped([wire.message(message) for message in messages]) == sent.messages(messages)
    assert messages == before


def test_a_stream_is_asked_for_with_the_same_messages(sent: Sent) -> None:
    sent.stream = chunks(finish_reason="stop")
    try:
        list(sent.model.stream(list(KINDS.values())))
    finally:
        sent.stream = []
    assert dumped([wire.message(message) for message in KINDS.values()]) == _of(
        sent.body, "messages"
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "url": "https://a.example/x.pdf"},
        {"type": "audio", "url": "https://a.example/x.wav"},
        {"type": "video", "base64": "AAAA", "mime_type": "video/mp4"},
        {"type": "image", "base64": "AAAA"},
        {"type": "file", "source_type": "text", "url": "said", "mime_type": "text/plain"},
    ],
)
def test_what_chat_openai_refuses_stands_as_it_is(sent: Sent, block: dict[str, Any]) -> None:
    message = HumanMessage([block])
    with pytest.raises((KeyError, ValueError)):
        sent.messages([message])
    assert wire.message(message)["content"] == [block]


def test_what_no_model_is_sent_is_no_message() -> None:
    with pytest.raises(TypeError, match="RemoveMessage"):
        wire.message(RemoveMessage(id="1"))
