"""Does the prefix stay when pydantic-ai runs on a wrapped client, or with an own HTTP client?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kvagent_openai import KVAsyncHttpxClient, wrap

if TYPE_CHECKING:
    from .conftest import Reading

pydantic_ai = pytest.importorskip("pydantic_ai")


@pytest.mark.parametrize("given", ["openai_client", "http_client"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_loop(
    given: str, streamed: bool, make: Callable[..., Any], reading: Reading
) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with KVAsyncHttpxClient(engine=reading.engine) as http_client:
        if given == "openai_client":
            client = wrap(make("AsyncOpenAI"), engine=reading.engine)
            provider = OpenAIProvider(openai_client=client)
        else:
            provider = OpenAIProvider(base_url=reading.url, api_key="x", http_client=http_client)
        agent = pydantic_ai.Agent(
            OpenAIChatModel("m", provider=provider),
            instructions=reading.instructions,
            tools=[reading.read_file],
        )
        talk: list[Any] = []
        for question in reading.questions:
            if streamed:
                async with agent.run_stream(question, message_history=talk) as result:
                    output = await result.get_output()
                talk = result.all_messages()
            else:
                result = await agent.run(question, message_history=talk)
                output, talk = result.output, result.all_messages()
    assert output == reading.last_word
    reading.check()
