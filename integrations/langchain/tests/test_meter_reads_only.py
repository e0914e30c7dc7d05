"""Does the meter see what is sent, and change nothing of it?"""

from __future__ import annotations

import json
import warnings
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from integrations.openai.tests.null_server import NullServer
from kvagent_langchain.meter import KVMeter, MissingUsageWarning

from .caching_model import CachingModel
from .messages import conversations
from .talks import add, chat, look, question, steady


@settings(derandomize=True, deadline=None, max_examples=60)
@given(conversations())
def test_no_message_is_ever_changed(messages: list[BaseMessage]) -> None:
    meter, model = KVMeter(), GenericFakeChatModel(messages=iter([AIMessage("x")] * 2))
    before = deepcopy(messages)
    objects = list(messages)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingUsageWarning)
        try:
            model.invoke(messages, {"callbacks": [meter]})
        except (KeyError, TypeError, ValueError):
            return  # LangChain itself cannot read it
    assert messages == before
    assert [message.model_dump() for message in messages] == [m.model_dump() for m in before]
    assert all(now is then for now, then in zip(messages, objects, strict=True))
    assert meter.turns == 1


def test_the_messages_handed_in_are_only_read() -> None:
    """LangChain hands in the caller's own objects: what is written there would be sent."""
    meter, model = KVMeter(), CachingModel()
    call = {"name": "look", "args": {"path": "a"}, "id": "call_1", "type": "tool_call"}
    messages = [
        *steady(0),
        HumanMessage([{"type": "text", "text": "Look!"}]),
        AIMessage("", tool_calls=[call], additional_kwargs={"reasoning_content": "Hm."}),
        ToolMessage([{"type": "text", "text": "It holds text."}], tool_call_id="call_1"),
    ]
    before = deepcopy(messages)
    seen: list[list[BaseMessage]] = []

    class Spy(KVMeter):
        def on_chat_model_start(self, serialized: Any, messages: Any, **options: Any) -> None:
            seen.extend(messages)
            super().on_chat_model_start(serialized, messages, **options)

    model.invoke(messages, {"callbacks": [Spy(), meter]})
    assert seen[0][1] is messages[1]
    assert messages == before
    assert [m.model_dump() for m in messages] == [m.model_dump() for m in before]


def test_it_sees_what_chatopenai_sends(server: NullServer) -> None:
    from kvagent_langchain.observed import body_of

    model = chat(server)
    bodies: list[dict[str, Any]] = []

    class Spy(KVMeter):
        def on_chat_model_start(self, serialized: Any, messages: Any, **options: Any) -> None:
            bodies.append(json.loads(body_of("m", messages[0], options["invocation_params"])))

    call = {"name": "look", "args": {"path": "ä"}, "id": "call_1", "type": "tool_call"}
    model.bind_tools([look, add]).invoke(
        [
            *steady(0),
            question(0),
            AIMessage("", tool_calls=[call]),
            ToolMessage("It holds text.", tool_call_id="call_1"),
        ],
        {"callbacks": [Spy()]},
    )
    sent = server.chats[0].json
    assert bodies[0]["messages"] == sent["messages"]
    assert bodies[0]["tools"] == sent["tools"]
