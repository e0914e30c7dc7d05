"""Which kinds of messages does ChatOpenAI send?"""

from __future__ import annotations

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

CALL = {"name": "read", "args": {"path": "ä.py", "n": [1, 2.0, None]}, "id": "call_1"}
OTHER = {"name": "bash", "args": {}, "id": "call_2"}
INVALID = {"name": "read", "args": '{"path": "a', "id": "call_3", "error": "no JSON"}
RAW = [
    {
        "id": "call_1",
        "type": "function",
        "function": {"name": "read", "arguments": '{"path":"ä.py","n":[1,2.0,null]}'},
    }
]
PNG = "https://a.example/x.png"
WITH_BREAKPOINT = {"extras": {"prompt_cache_breakpoint": {"type": "ephemeral"}}}

KINDS: dict[str, BaseMessage] = {
    "user": HumanMessage("hello"),
    "user with a name": HumanMessage("hello", name="Ada"),
    "user with a name beside": HumanMessage("hello", additional_kwargs={"name": "Ada"}),
    "user with an empty name": HumanMessage("hello", name=""),
    "nothing said": HumanMessage(""),
    "no blocks": HumanMessage([]),
    "unicode": HumanMessage('naïve 日本 👩‍👩‍👧 𝒳 \u2028 \x00 \ufeff "quoted" \\ /'),
    "blocks of text": HumanMessage(["a", {"type": "text", "text": "b", "cache_control": {}}]),
    "text with a breakpoint": HumanMessage([{"type": "text", "text": "b", **WITH_BREAKPOINT}]),
    "image by its URL": HumanMessage([{"type": "image", "url": PNG, "id": "i"}]),
    "image": HumanMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/png"}]),
    "image with a breakpoint": HumanMessage([{"type": "image", "url": PNG, **WITH_BREAKPOINT}]),
    "image of OpenAI": HumanMessage(
        [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}]
    ),
    "image of Anthropic": HumanMessage(
        [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            },
            {"type": "image", "source": {"type": "url", "url": PNG}},
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
        ]
    ),
    "image before v1": HumanMessage(
        [
            {"type": "image", "source_type": "url", "url": PNG},
            {
                "type": "image",
                "source_type": "base64",
                "data": "AAAA",
                "mime_type": "image/png",
            },
        ]
    ),
    "audio": HumanMessage([{"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}]),
    "audio of OpenAI": HumanMessage(
        [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]
    ),
    "audio before v1": HumanMessage(
        [{"type": "audio", "source_type": "base64", "data": "AAAA", "mime_type": "audio/wav"}]
    ),
    "file": HumanMessage(
        [{"type": "file", "base64": "AAAA", "mime_type": "text/csv", "filename": "a.csv"}]
    ),
    "file with a name in the extras": HumanMessage(
        [
            {
                "type": "file",
                "base64": "AAAA",
                "mime_type": "text/csv",
                "extras": {"filename": "a.csv"},
            }
        ]
    ),
    "file by its id": HumanMessage([{"type": "file", "file_id": "file-1"}]),
    "file of OpenAI": HumanMessage(
        [
            {
                "type": "file",
                "file": {"file_data": "data:text/csv;base64,AAAA", "filename": "a.csv"},
            },
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_data": "AAAA", "filename": "a.csv"}},
        ]
    ),
    "file before v1": HumanMessage(
        [
            {
                "type": "file",
                "source_type": "base64",
                "data": "AAAA",
                "mime_type": "application/pdf",
                "filename": "a.pdf",
            },
            {"type": "file", "source_type": "id", "id": "file-1"},
        ]
    ),
    "system": SystemMessage("be brief", name="boss"),
    "developer": SystemMessage("be brief", additional_kwargs={"__openai_role__": "developer"}),
    "system in blocks": SystemMessage([{"type": "text", "text": "be brief"}]),
    "assistant": AIMessage("hello", name="bob", id="run-1"),
    "assistant with no text": AIMessage(""),
    "one call": AIMessage("", tool_calls=[CALL]),
    "text and parallel calls": AIMessage("I look.", tool_calls=[CALL, OTHER]),
    "calls and no blocks": AIMessage([], tool_calls=[CALL]),
    "a call that is no JSON": AIMessage("", invalid_tool_calls=[INVALID]),
    "calls of both kinds": AIMessage("", tool_calls=[CALL], invalid_tool_calls=[INVALID]),
    "calls as generated": AIMessage("", additional_kwargs={"tool_calls": RAW}),
    "calls nobody parsed": AIMessage("", additional_kwargs={"tool_calls": [{"id": "a", "x": 1}]}),
    "no raw calls": AIMessage("", additional_kwargs={"tool_calls": []}),
    "function call": AIMessage(
        "", additional_kwargs={"function_call": {"name": "read", "arguments": "{}"}}
    ),
    "spoken": AIMessage("", additional_kwargs={"audio": {"id": "audio_1", "data": "AAAA"}}),
    "spoken, in blocks": AIMessage([{"type": "audio", "id": "audio_1"}]),
    "reasoning beside": AIMessage("42", additional_kwargs={"reasoning_content": "6*7"}),
    "assistant in blocks of v1": AIMessage(
        [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "text", "text": "I look.", "annotations": [], "id": "t"},
            {"type": "tool_call", **CALL},
            {"type": "invalid_tool_call", **INVALID},
        ]
    ),
    "a refusal": AIMessage([{"type": "refusal", "refusal": "no", "id": "r"}]),
    "a refusal without words": AIMessage([{"type": "refusal", "refusal": ""}]),
    "assistant of Anthropic": AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "read", "input": CALL["args"]},
        ],
        tool_calls=[CALL],
    ),
    "a chunk": AIMessageChunk(
        content="",
        tool_call_chunks=[{"name": "read", "args": '{"a": 1}', "id": "call_1", "index": 0}],
    ),
    "chunks added up": AIMessageChunk(content="he") + AIMessageChunk(content="llo"),
    "result": ToolMessage("42", tool_call_id="call_1", name="read", status="error", artifact=[1]),
    "empty result": ToolMessage("", tool_call_id="call_1"),
    "result in blocks": ToolMessage(
        ["a", {"type": "text", "text": "b", "id": "t"}, {"type": "image", "url": PNG}],
        tool_call_id="call_1",
    ),
    "result of a function": FunctionMessage(content="42", name="read"),
    "any role": ChatMessage(content="hello", role="critic", name="c"),
}
