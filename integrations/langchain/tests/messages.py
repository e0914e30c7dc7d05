"""What messages may LangChain hand to a model? Strategies for random ones.

Only what ChatOpenAI can send: no file by its URL, and no audio but as base64.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
)

# Surrogates alone are no text that could be sent.
texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    [
        "",
        " ",
        "\n",
        "\x00",
        "\u2028",
        "\ufeff",
        "naïve",
        "日本",
        "👩‍👩‍👧",
        "𝒳",
        '"\\',
        "</s>",
        "<|im_end|>",
    ]
)
names = st.sampled_from(["read_file", "bash", "search", "kvagent", "läse"])
ids = st.from_regex(r"call_[a-z0-9]{6}", fullmatch=True)

_scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts
values = st.recursive(
    _scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(texts, values, max_size=4)
broken_arguments = st.sampled_from(
    ['{"path": "a', "[1, 2", "not json", '{"a": 1}}', "{'a': 1}", "", "é{"]
)

_base64 = st.sampled_from(["", "AAAA", "aGVsbG8=", "/9j/4AAQ"])
_urls = st.sampled_from(["https://a.example/x.png", "data:image/png;base64,AAAA", "file:///x"])
_extras = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "index": st.integers(0, 9),
        "extras": st.fixed_dictionaries({}, optional={"detail": texts, "filename": names}),
        "cache_control": st.just({"type": "ephemeral"}),
    },
)


def _block(type: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda fixed, extra: {**extra, **fixed},
        st.fixed_dictionaries({"type": st.just(type), **keys}),
        _extras,
    )


_mimes = st.sampled_from(["image/png", "audio/wav", "application/pdf", "text/plain"])
text_blocks = _block("text", text=texts)
standard_blocks = st.one_of(
    text_blocks,
    _block("image", url=_urls),
    _block("image", base64=_base64, mime_type=_mimes),
    _block("audio", base64=_base64, mime_type=_mimes),
    _block("file", base64=_base64, mime_type=_mimes, filename=names),
    _block("file", file_id=ids),
)


def _old(type: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """As they were before LangChain 1, which refuses those with an id."""
    return _block(type, **keys).map(lambda block: {k: v for k, v in block.items() if k != "id"})


blocks_before_v1 = st.one_of(
    _old("image", source_type=st.just("url"), url=_urls),
    _old("image", source_type=st.just("base64"), data=st.just("AAAA"), mime_type=_mimes),
    _old("audio", source_type=st.just("base64"), data=st.just("AAAA"), mime_type=_mimes),
    _old(
        "file",
        source_type=st.just("base64"),
        data=st.just("AAAA"),
        mime_type=_mimes,
        filename=names,
    ),
    st.fixed_dictionaries(
        {"type": st.just("file"), "source_type": st.just("id"), "id": ids},
    ),
)
_media = st.sampled_from(["image/png", "image/webp", ""])
openai_blocks = st.one_of(
    _block(
        "image_url", image_url=st.fixed_dictionaries({"url": _urls}, optional={"detail": texts})
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("input_audio"),
            "input_audio": st.fixed_dictionaries(
                {"data": st.just("AAAA"), "format": st.sampled_from(["wav", "mp3"])}
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("file"),
            "file": st.one_of(
                st.fixed_dictionaries({"file_id": ids}),
                st.fixed_dictionaries(
                    {"file_data": st.just("data:text/plain;base64,AAAA"), "filename": names}
                ),
                st.fixed_dictionaries({"file_data": st.just("no data uri")}),
            ),
        }
    ),
)
foreign_blocks = st.one_of(
    _block("image", source=st.fixed_dictionaries({"type": st.just("url"), "url": _urls})),
    _block(
        "image",
        source=st.fixed_dictionaries(
            {"type": st.just("base64"), "media_type": _media, "data": _base64}
        ),
    ),
    _block("thinking", thinking=texts, signature=texts),
    _block("tool_use", name=names, input=arguments),
    _block("reasoning_content", reasoning_content=texts),
    _block("function_call", arguments=texts, call_id=ids),
    _block("custom", value=texts),
    st.dictionaries(st.sampled_from(["a", "b"]), texts, max_size=2),
)
reply_blocks = st.one_of(
    _block("reasoning", reasoning=texts),
    _block("refusal", refusal=texts),
    _block("tool_call", name=names, args=arguments),
    _block("invalid_tool_call", name=names, args=texts, error=texts),
)
blocks: st.SearchStrategy[Any] = st.one_of(
    texts, text_blocks, standard_blocks, blocks_before_v1, openai_blocks, foreign_blocks
)
contents: st.SearchStrategy[Any] = st.one_of(texts, st.lists(blocks, max_size=4))
# Audio of an answer is sent as its id, and LangChain makes a new one for each call where there is none.
answer_contents: st.SearchStrategy[Any] = st.one_of(
    texts,
    st.lists(
        st.one_of(blocks, reply_blocks).filter(
            lambda block: not (isinstance(block, dict) and "input_audio" in block)
        ),
        max_size=4,
    ),
)

tool_calls = st.fixed_dictionaries(
    {"name": names, "args": arguments, "id": ids | st.none(), "type": st.just("tool_call")}
)
invalid_tool_calls = st.fixed_dictionaries(
    {
        "name": names | st.none(),
        "args": broken_arguments | st.none(),
        "id": ids | st.none(),
        "error": texts | st.none(),
        "type": st.just("invalid_tool_call"),
    }
)
_raw_calls = st.fixed_dictionaries(
    {
        "id": ids,
        "function": st.fixed_dictionaries({"name": names, "arguments": broken_arguments}),
        "type": st.just("function"),
    },
    optional={"index": st.integers(0, 3)},
)
_kwargs = st.fixed_dictionaries(
    {},
    optional={
        "name": names,
        "refusal": texts,
        "reasoning_content": texts,
        "audio": st.sampled_from([{"id": "audio_1", "data": "AAAA"}, {"data": "AAAA"}]),
        "function_call": st.fixed_dictionaries({"name": names, "arguments": texts}),
        "tool_calls": st.lists(_raw_calls, max_size=2),
    },
)
_name = st.none() | names | st.just("")

humans: st.SearchStrategy[BaseMessage] = st.builds(HumanMessage, content=contents, name=_name)
systems: st.SearchStrategy[BaseMessage] = st.builds(
    SystemMessage,
    content=contents,
    name=_name,
    additional_kwargs=st.sampled_from([{}, {"__openai_role__": "developer"}]),
)
answers: st.SearchStrategy[BaseMessage] = st.builds(
    AIMessage,
    content=answer_contents,
    name=_name,
    tool_calls=st.lists(tool_calls, max_size=3),
    invalid_tool_calls=st.lists(invalid_tool_calls, max_size=2),
    additional_kwargs=_kwargs,
    id=st.none() | ids,
)
chunks: st.SearchStrategy[BaseMessage] = st.builds(
    AIMessageChunk,
    content=answer_contents,
    tool_calls=st.lists(tool_calls, max_size=2),
    additional_kwargs=_kwargs,
)
results: st.SearchStrategy[BaseMessage] = st.builds(
    ToolMessage,
    content=contents,
    tool_call_id=ids,
    name=_name,
    status=st.sampled_from(["success", "error"]),
    artifact=st.none() | arguments,
    id=st.none() | ids,
)
others: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(ChatMessage, content=contents, role=st.sampled_from(["user", "critic", "assistant"])),
    st.builds(FunctionMessage, content=contents, name=names),
    st.builds(HumanMessageChunk, content=contents),
    st.builds(ToolMessageChunk, content=contents, tool_call_id=ids),
)

messages: st.SearchStrategy[BaseMessage] = st.one_of(
    humans, systems, answers, chunks, results, others
)
"""One message of any kind."""

message_lists: st.SearchStrategy[list[BaseMessage]] = st.lists(messages, min_size=1, max_size=6)
"""Messages in any order."""


@st.composite
def turns(draw: st.DrawFn, of: str = "") -> list[BaseMessage]:
    """An answer, and a result for each of its calls; ``of`` sets its ids apart."""
    calls = [
        call | {"id": f"call_{of}_{n}"}
        for n, call in enumerate(draw(st.lists(tool_calls, max_size=3)))
    ]
    answer = AIMessage(draw(texts), tool_calls=calls, id=f"answer_{of}")
    results = [
        ToolMessage(draw(texts), tool_call_id=call["id"], name=call["name"], id=f"of_{call['id']}")
        for call in calls
    ]
    return [answer, *results]


@st.composite
def conversations(draw: st.DrawFn, turns_at_most: int = 4) -> list[BaseMessage]:
    """Messages as an agent has them: a head, a task, turns with all results, and questions."""
    found: list[BaseMessage] = []
    if draw(st.booleans()):
        found.append(SystemMessage(draw(texts), id="system"))
    found.append(HumanMessage(draw(texts), id="task"))
    for turn in range(draw(st.integers(0, turns_at_most))):
        found += draw(turns(of=str(turn)))
        if draw(st.booleans()):
            found.append(HumanMessage(draw(texts), id=f"question_{turn}"))
    return found
