"""Does the prefix stay when openai-agents runs on a wrapped client?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kvagent_openai import wrap

if TYPE_CHECKING:
    from .conftest import Reading

agents = pytest.importorskip("agents")


@pytest.mark.parametrize("given", ["default", "model"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_loop(
    given: str, streamed: bool, make: Callable[..., Any], reading: Reading
) -> None:
    client = wrap(make("AsyncOpenAI"), engine=reading.engine)
    agents.set_tracing_disabled(True)
    if given == "default":
        agents.set_default_openai_client(client, use_for_tracing=False)
        agents.set_default_openai_api("chat_completions")
        model: Any = "m"
    else:
        model = agents.OpenAIChatCompletionsModel("m", openai_client=client)
    agent = agents.Agent(
        name="reader",
        model=model,
        instructions=lambda context, agent: reading.instructions(),
        tools=[agents.function_tool(reading.read_file)],
    )
    talk: list[Any] = []
    for question in reading.questions:
        asked = [*talk, {"role": "user", "content": question}]
        if streamed:
            result = agents.Runner.run_streamed(agent, asked)
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, asked)
        talk = result.to_input_list()
    assert result.final_output == reading.last_word
    reading.check()
