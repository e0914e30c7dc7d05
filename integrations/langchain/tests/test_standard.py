"""Is it a chat model as LangChain wants one?

LangChain's own suites, none of whose tests is changed. The integration suite runs against a real llama.cpp; what that
server or its small model cannot do is said where it is switched off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

pytest.importorskip("langchain_tests", reason="langchain-tests is not installed (group langchain)")

from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from kvagent_langchain.chat_model import KVChatOpenAI

NOBODY = "http://127.0.0.1:9/v1"

# What ChatOpenAI says of a schema that the suite gives it, and while it streams what it parses.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema:UserWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]


class TestUnit(ChatModelUnitTests):  # type: ignore[misc]
    @property
    def chat_model_class(self) -> type[KVChatOpenAI]:
        return KVChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "smollm2", "base_url": NOBODY}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return (
            {
                "OPENAI_API_KEY": "secret",
                "OPENAI_ORG_ID": "an organisation",
                "OPENAI_API_BASE": NOBODY,
            },
            {"model": "smollm2"},
            {
                "openai_api_key": "secret",
                "openai_organization": "an organisation",
                "openai_api_base": NOBODY,
            },
        )

    @pytest.mark.xfail(
        reason="load(allowed_objects='all') of LangChain means its own packages; others are named "
        "(test_chat_openai.py saves and loads it so)."
    )
    def test_serdes(self, model: Any, snapshot: Any) -> None:
        super().test_serdes(model, snapshot)


# A grammar leaves room: for words in front of a call that is required, and within each string. SmolLM2 with its
# 135 million parameters goes on in them for ever. Two calls to look at, and a liking for the tokens that open a call
# and close a string or a reply, make it come to the point.
TWO_CALLS = r"""<|im_end|>
<|im_start|>user
What is double_it(7)? Use the tool.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "double_it", "arguments": {"number": 7}}
</tool_call><|im_end|>
<|im_start|>tool
14<|im_end|>
<|im_start|>assistant
It is 14.<|im_end|>
<|im_start|>user
Make a user named Ann Söhne.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "make_user", "arguments": {"user_name": "Ann Söhne"}}
</tool_call><|im_end|>
<|im_start|>tool
made<|im_end|>
<|im_start|>assistant
Ann Söhne is made."""
CLOSING = ("18", "1002", "1270", "4817", "30137", "14069", "23597")
"""SmolLM2's tokens with a quotation mark, such as `",`."""
CALLING = {"44": 5, "2": 4, **dict.fromkeys(CLOSING, 3)}
"""And for `<` and the end of a reply."""
TERSE = dict.fromkeys(CLOSING, 20)


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a llama.cpp whose small model calls tools."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp, ServerError, default_model

    try:
        default_model()
    except ServerError as error:
        pytest.skip(str(error))
    end = "{{- '\\n</tools>"
    opening, instruction = CHAT_TEMPLATE.read_text(encoding="utf-8").split(end)
    _, rest = instruction.split("' -}}", maxsplit=1)
    shown = TWO_CALLS.replace("\n", "\\n")
    template: Path = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(f"{opening}{end}{shown}' -}}}}{rest}", encoding="utf-8")
    with LlamaCpp(template=template, threads=1) as server:
        yield server.base_url


class TestIntegration(ChatModelIntegrationTests):  # type: ignore[misc]
    @pytest.fixture(autouse=True)
    async def _connected(self, calling: str, request: Any) -> AsyncIterator[None]:
        """Each test has an event loop of its own, and so a client of its own."""
        self.base_url = calling
        self.likings = TERSE if "structured_output" in request.node.name else CALLING
        self.http_async_client = openai.DefaultAsyncHttpxClient()
        yield
        await self.http_async_client.aclose()

    @property
    def chat_model_class(self) -> type[KVChatOpenAI]:
        return KVChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": "smollm2",
            "base_url": self.base_url,
            "http_async_client": self.http_async_client,
            "max_tokens": 80,
            "logit_bias": self.likings,
            "model_kwargs": {"parallel_tool_calls": False},
            "temperature": 0,
        }

    @property
    def supports_model_override(self) -> bool:
        """llama.cpp has one model, and answers under its name whatever name was asked for."""
        return False

    @property
    def supports_json_mode(self) -> bool:
        """llama.cpp does, but leaves the keys to the model, and SmolLM2 does not find them."""
        return False

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> dict[Any, Any]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}

    @pytest.mark.xfail(reason="llama.cpp takes no choice of a tool by its name.")
    def test_tool_choice(self, model: Any) -> None:
        super().test_tool_choice(model)

    @pytest.mark.xfail(
        reason="llama.cpp takes no choice of a tool by its name: the model calls it or not.",
        strict=False,
    )
    def test_structured_output_pydantic_2_v1(self, model: Any) -> None:
        super().test_structured_output_pydantic_2_v1(model)

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        model = KVChatOpenAI(**self.chat_model_params, streaming=stream)
        model.invoke("Say it once more.")
        again = model.invoke("Say it once more.")
        assert again.usage_metadata is not None
        assert again.usage_metadata["input_token_details"]["cache_read"] > 0
        return again
