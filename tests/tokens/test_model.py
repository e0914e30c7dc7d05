"""What is a model made of, and what does it say if something is missing?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvagent.backends.llamacpp_prompt import CHATML
from kvagent.backends.prompt import PromptError
from kvagent.backends.vllm_prompt import VLLM
from kvagent.gguf import GGUFError
from kvagent.tokens.model import Model
from kvagent.tokens.template import TemplateError
from kvagent.tokens.tokenizer import TokenizerError
from tests.tokens.chats import TOOLS, call, reply, result, texts, user
from tests.tokens.gguf_files import write_gguf

TEMPLATE = "{% for m in messages %}<s>{{ m.content }}{% endfor %}"
BODY = {"messages": [user("ab")]}
LETTERS = ["<unk>", "<s>", "</s>", "▁", *(f"<0x{byte:02X}>" for byte in range(256)), "ab", "a", "b"]


def gguf(folder: Path, template: str | None = TEMPLATE, **more: Any) -> Path:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": LETTERS,
        "tokenizer.ggml.scores": [0.0] * len(LETTERS),
        "tokenizer.ggml.token_type": [2, 3, 3, 1] + [6] * 256 + [1] * 3,
        "tokenizer.ggml.add_space_prefix": False,
    }
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    metadata |= {f"tokenizer.{key}": value for key, value in more.items()}
    return write_gguf(folder / "model.gguf", metadata)


class TestFromGGUF:
    def test_its_own_template(self, tmp_path: Path) -> None:
        """Bos, which the template writes and the tokenizer adds, stands there once."""
        model = Model.from_gguf(gguf(tmp_path))
        assert model.prompt(BODY) == "ab"
        assert model.tokens(BODY) == [1, LETTERS.index("ab")]
        assert model.count("ab") == 1
        assert model.name == "tokenizer of model.gguf"

    def test_another_template(self, tmp_path: Path) -> None:
        model = Model.from_gguf(gguf(tmp_path), "{{ messages[0].content }}!")
        assert model.prompt(BODY) == "ab!"

    def test_a_template_for_tools(self, tmp_path: Path) -> None:
        path = gguf(tmp_path, **{"chat_template.tool_use": "tools: {{ tools|length }}"})
        model = Model.from_gguf(path)
        assert model.prompt(BODY) == "ab"
        assert model.prompt({**BODY, "tools": TOOLS}) == "tools: 2"
        assert model.prompt({**BODY, "tools": []}) == "ab"

    def test_without_one(self, tmp_path: Path) -> None:
        path = gguf(tmp_path, None)
        assert Model.from_gguf(path).template.source == CHATML
        with pytest.raises(TemplateError, match="pass the text of one as `template`"):
            Model.from_gguf(path, dialect=VLLM)

    def test_edges_are_variables_of_the_template(self, tmp_path: Path) -> None:
        model = Model.from_gguf(gguf(tmp_path, "x{{ bos_token }}{{ eos_token }}x"))
        assert model.prompt(BODY) == "x<s></s>x"

    def test_a_template_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(TemplateError):
            Model.from_gguf(gguf(tmp_path, "{% if %}"))

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"model\.gguf"):
            Model.from_gguf(tmp_path / "model.gguf")

    def test_no_gguf(self, tmp_path: Path) -> None:
        (tmp_path / "model.gguf").write_bytes(b"something else, and long enough to be read")
        with pytest.raises(GGUFError):
            Model.from_gguf(tmp_path / "model.gguf")

    def test_a_file_without_a_tokenizer(self, tmp_path: Path) -> None:
        path = write_gguf(tmp_path / "model.gguf", {"general.architecture": "llama"})
        with pytest.raises(TokenizerError, match="Hugging Face folder"):
            Model.from_gguf(path)


class TestRequests:
    def test_each_server_has_its_own_prompt(self, tmp_path: Path) -> None:
        """The same model and the same request: fractions, and what stands in the tools."""
        source = """{{ tools|tojson }}{% for m in messages %}{{ m.content }}
{%- for c in m.tool_calls or [] %}{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}"""
        tool = {"type": "function", "function": {"name": "g", "parameters": {"x": 2.0}}}
        body = {
            "tools": [tool],
            "messages": [
                user(texts("a", "b")),
                reply("", tool_calls=[call("g", '{"x":1.23456789}')]),
                result("r"),
            ],
        }
        path = gguf(tmp_path, source)
        llamacpp = Model.from_gguf(path).prompt(body)
        vllm = Model.from_gguf(path, dialect=VLLM).prompt(body)
        assert '"description": "", "parameters": {"x": 2}' in llamacpp
        assert '"description": null, "parameters": {"x": 2.0}' in vllm
        assert '{"x": 1.23456789}' in vllm

    def test_a_refusal_of_the_template(self, tmp_path: Path) -> None:
        source = (
            "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}"
        )
        with pytest.raises(TemplateError, match="no system"):
            Model.from_gguf(gguf(tmp_path, source)).tokens(BODY)

    @pytest.mark.parametrize("dialect", [None, VLLM])
    def test_an_image(self, tmp_path: Path, dialect: Any) -> None:
        model = Model.from_gguf(gguf(tmp_path), **({"dialect": dialect} if dialect else {}))
        image = {"type": "image_url", "image_url": {"url": "data:,"}}
        with pytest.raises(PromptError, match="the server itself"):
            model.tokens({"messages": [user([image])]})

    @pytest.mark.parametrize("body", [{}, {"messages": None}, {"messages": ["x"]}])
    def test_no_chat_request(self, tmp_path: Path, body: dict[str, Any]) -> None:
        with pytest.raises(PromptError, match="body of a chat request"):
            Model.from_gguf(gguf(tmp_path)).tokens(body)
