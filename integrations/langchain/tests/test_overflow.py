"""Does LangChain hear that a prompt was too long, whichever server says so, and however it was asked?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import reduce
from operator import add
from typing import Any

import openai
import pytest
from langchain_core.exceptions import ContextOverflowError

from integrations.openai.tests.null_server import Answer, NullServer, events, sse
from kvagent import Policy
from kvagent_langchain.chat_model import KVChatOpenAI, chat_openai
from kvagent_langchain.overflow import as_overflow

WAYS = ["invoke", "ainvoke", "stream", "astream"]
STREAMS = ["stream", "astream"]

# Status and body as each server sends them.
REFUSALS: dict[str, tuple[int, dict[str, Any], type[openai.APIStatusError]]] = {
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (9000 tokens) exceeds the available context size (4096 tokens), "
                "try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            }
        },
        openai.BadRequestError,
    ),
    "llama.cpp, while it answers": (
        500,
        {
            "error": {
                "code": 500,
                "message": "Context size has been exceeded.",
                "type": "server_error",
            }
        },
        openai.InternalServerError,
    ),
    "vLLM": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4096 tokens. However, your prompt "
                "contains at least 4097 input tokens. Please reduce the length of the input prompt.",
                "type": "BadRequestError",
                "param": "input_tokens",
                "code": 400,
            }
        },
        openai.BadRequestError,
    ),
    "older vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "9000 tokens in the messages, Please reduce the length of the messages.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        openai.BadRequestError,
    ),
}
OTHERS: dict[str, tuple[int, dict[str, Any], type[openai.APIStatusError]]] = {
    "bad request": (400, {"error": {"message": "tools: not a list"}}, openai.BadRequestError),
    "not found": (404, {"error": {"message": "no such model"}}, openai.NotFoundError),
    "broken": (500, {"error": {"message": "out of memory"}}, openai.InternalServerError),
}


@pytest.fixture
async def model(server: NullServer) -> AsyncIterator[KVChatOpenAI]:
    client = openai.DefaultAsyncHttpxClient()
    yield chat_openai(
        "m",
        base_url=f"{server.url}/v1",
        policy=Policy(probe=False),
        http_async_client=client,
        max_retries=0,
    )
    await client.aclose()


async def ask(way: str, model: Any, messages: Any) -> Any:
    if way == "invoke":
        return model.invoke(messages)
    if way == "ainvoke":
        return await model.ainvoke(messages)
    if way == "stream":
        return reduce(add, model.stream(messages))
    return reduce(add, [chunk async for chunk in model.astream(messages)])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refusal_is_langchains_and_the_sdks(
    refusal: str, way: str, model: KVChatOpenAI, server: NullServer
) -> None:
    status, body, kind = REFUSALS[refusal]
    server.respond = lambda seen: Answer(json.dumps(body).encode(), status)
    with pytest.raises(ContextOverflowError) as caught:
        await ask(way, model, "Too long.")
    error = caught.value
    assert isinstance(error, kind)
    assert error.status_code == error.response.status_code == status
    assert error.response.json() == body
    assert error.body == body.get("error", body)
    assert isinstance(error.__cause__, kind)
    assert error.message == error.__cause__.message


@pytest.mark.parametrize("way", STREAMS)
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refusal_within_a_stream(
    refusal: str, way: str, model: KVChatOpenAI, server: NullServer
) -> None:
    error = REFUSALS[refusal][1].get("error") or REFUSALS[refusal][1]
    told = f"data: {json.dumps({'error': error})}\n\n".encode()
    server.respond = lambda seen: sse([*events({"content": "There."})[:2], told])
    with pytest.raises(ContextOverflowError) as caught:
        await ask(way, model, "Too long.")
    assert isinstance(caught.value, openai.APIError)
    assert caught.value.body == error
    assert caught.value.request.url.path == "/v1/chat/completions"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("other", OTHERS)
async def test_other_errors_stay_what_they_are(
    other: str, way: str, model: KVChatOpenAI, server: NullServer
) -> None:
    status, body, kind = OTHERS[other]
    server.respond = lambda seen: Answer(json.dumps(body).encode(), status)
    with pytest.raises(kind) as caught:
        await ask(way, model, "Hello.")
    assert not isinstance(caught.value, ContextOverflowError)


@pytest.mark.parametrize("way", WAYS)
async def test_structured_output_too(way: str, model: KVChatOpenAI, server: NullServer) -> None:
    status, body, kind = REFUSALS["vLLM"]
    server.respond = lambda seen: Answer(json.dumps(body).encode(), status)
    schema = {"title": "A", "type": "object", "properties": {"a": {"type": "string"}}}
    with pytest.raises(ContextOverflowError) as caught:
        await ask(way, model.with_structured_output(schema), "Too long.")
    assert isinstance(caught.value, kind)


async def test_a_fallback_for_overflows_takes_over(model: KVChatOpenAI, server: NullServer) -> None:
    """As LangChain's own recovery goes."""
    status, body, _ = REFUSALS["llama.cpp"]
    server.scripted.append(Answer(json.dumps(body).encode(), status))
    larger = chat_openai("larger", base_url=f"{server.url}/v1", engine=model.engine)
    safe = model.with_fallbacks([larger], exceptions_to_handle=(ContextOverflowError,))
    assert (await ask("invoke", safe, "Too long.")).content.startswith("reply")
    assert [seen.json["model"] for seen in server.chats] == ["m", "larger"]


def test_what_langchain_has_recognised_is_left_alone() -> None:
    from langchain_openai.chat_models.base import OpenAIAPIContextOverflowError

    error = OpenAIAPIContextOverflowError("exceeds the context window", request=None, body=None)  # type: ignore[arg-type]
    assert as_overflow(error) is None


async def test_the_real_server(llamacpp: str) -> None:
    """Nothing can be made smaller here: one message, longer than the window of 8,192 tokens."""
    model = chat_openai("smollm2", base_url=llamacpp, max_tokens=4, max_retries=0)
    text = " ".join(str(n * 7919 % 99991) for n in range(6000))
    for way in ("invoke", "stream"):
        with pytest.raises(
            ContextOverflowError, match="exceeds the available context size"
        ) as caught:
            await ask(way, model, text)
        assert isinstance(caught.value, openai.BadRequestError)
