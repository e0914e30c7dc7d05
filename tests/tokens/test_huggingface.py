"""What does a Hugging Face folder hold, and which ids does its tokenizer give?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from kvagent.backends.llamacpp_prompt import LLAMACPP
from kvagent.tokens.huggingface import Folder, FolderTokenizer
from kvagent.tokens.model import Model
from kvagent.tokens.template import TemplateError
from kvagent.tokens.tokenizer import TokenizerError
from tests.tokens.chats import TOOLS, user

TEMPLATE = "{% for m in messages %}<s>{{ m.content }}{% endfor %}"
BODY = {"messages": [user("ab é")]}


def tokenizer() -> Tokenizer:
    """Byte-level, one merge, bos added to a text that asks for it, truncated and padded."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: at for at, token in enumerate([*alphabet, "ab"])}
    made = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken("<s>", special=True)])
    bos = made.token_to_id("<s>")
    made.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", bos)])
    made.enable_truncation(2)
    made.enable_padding(length=8)
    return made


def folder(path: Path, **files: Any) -> Path:
    """A folder with a tokenizer, and these files: text as it is, JSON of the rest."""
    tokenizer().save(str(path / "tokenizer.json"))
    for name, value in files.items():
        file = path / name.replace("__", "/").replace("_jinja", ".jinja").replace("_json", ".json")
        file.parent.mkdir(exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


class TestTemplates:
    def test_in_the_configuration(self, tmp_path: Path) -> None:
        path = folder(tmp_path, tokenizer_config_json={"chat_template": TEMPLATE})
        assert Folder(path).template() == TEMPLATE

    def test_several_with_names(self, tmp_path: Path) -> None:
        named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
        path = folder(tmp_path, tokenizer_config_json={"chat_template": named})
        assert Folder(path).templates == {"default": "d", "tool_use": "t"}
        assert Model.from_folder(path).prompt(BODY) == "d"
        assert Model.from_folder(path).prompt({**BODY, "tools": TOOLS}) == "t"
        assert Model.from_folder(path, "own").prompt({**BODY, "tools": TOOLS}) == "own"

    def test_a_file_goes_first(self, tmp_path: Path) -> None:
        path = folder(
            tmp_path,
            tokenizer_config_json={"chat_template": "config"},
            chat_template_jinja="file",
            chat_templates__tool_use_jinja="tools",
        )
        assert Folder(path).templates == {"default": "file", "tool_use": "tools"}

    def test_none(self, tmp_path: Path) -> None:
        path = folder(tmp_path)
        with pytest.raises(TemplateError, match="pass the text of one"):
            Folder(path).template()
        with pytest.raises(TemplateError, match="`template`"):
            Model.from_folder(path)
        assert Model.from_folder(path, TEMPLATE).prompt(BODY) == "<s>ab é"

    def test_a_model_without_one_speaks_chatml_on_llamacpp(self, tmp_path: Path) -> None:
        model = Model.from_folder(folder(tmp_path), dialect=LLAMACPP)
        assert model.prompt(BODY).startswith("<|im_start|>user\nab é<|im_end|>")

    def test_a_model_that_the_server_renders_itself(self, tmp_path: Path) -> None:
        path = folder(tmp_path, config_json={"model_type": "gpt_oss"}, chat_template_jinja=TEMPLATE)
        with pytest.raises(TemplateError, match="running server"):
            Model.from_folder(path)


class TestSpecialTokens:
    def test_as_texts_or_objects(self, tmp_path: Path) -> None:
        path = folder(
            tmp_path,
            tokenizer_config_json={"bos_token": {"content": "<s>"}, "eos_token": "</s>", "x": 1},
            special_tokens_map_json={"pad_token": "<pad>", "eos_token": "old", "unk_token": None},
        )
        assert Folder(path).special_tokens == {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
        }

    def test_are_variables_of_the_template(self, tmp_path: Path) -> None:
        path = folder(tmp_path, tokenizer_config_json={"bos_token": "<s>"})
        source = "{{ bos_token }}|{{ eos_token }}{% for m in messages %}{% endfor %}"
        assert Model.from_folder(path, source).prompt(BODY) == "<s>|"

    @pytest.mark.parametrize(
        ("files", "stops"),
        [
            ({}, set()),
            ({"config_json": {"eos_token_id": 2}}, {2}),
            (
                {
                    "config_json": {"eos_token_id": 2},
                    "generation_config_json": {"eos_token_id": [3, 4]},
                },
                {3, 4},
            ),
        ],
    )
    def test_that_end_a_reply(self, tmp_path: Path, files: dict[str, Any], stops: set[int]) -> None:
        assert Folder(folder(tmp_path, **files)).stop_tokens == stops


class TestTokenizer:
    def test_as_it_stands_but_neither_cut_nor_filled(self, tmp_path: Path) -> None:
        found = FolderTokenizer(folder(tmp_path))
        plain = tokenizer()
        plain.no_padding()
        plain.no_truncation()
        text = "ab é <s> ab" * 10
        assert found.encode(text) == plain.encode(text, add_special_tokens=False).ids
        assert found.encode(text, add_special=True) == [256 + 1, *found.encode(text)]

    def test_bos_stands_once_unless_a_request_asks(self, tmp_path: Path) -> None:
        model = Model.from_folder(folder(tmp_path), TEMPLATE)
        bos = 257
        assert model.tokens(BODY).count(bos) == 1
        assert model.tokens({**BODY, "add_special_tokens": True}).count(bos) == 2

    def test_counts(self, tmp_path: Path) -> None:
        model = Model.from_folder(folder(tmp_path), TEMPLATE)
        assert model.exact
        assert model.count("ab") == 1
        assert model.count("é") == 2
        assert model.count("") == 0
        assert model.name == f"tokenizer of {tmp_path.name}"

    def test_none(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match="GGUF"):
            FolderTokenizer(tmp_path)

    def test_no_tokenizer_at_all(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_text('{"model": 1}')
        with pytest.raises(TokenizerError, match="cannot be read"):
            FolderTokenizer(tmp_path)

    @pytest.mark.parametrize("text", ["{", "[]"])
    def test_a_configuration_that_is_none(self, tmp_path: Path, text: str) -> None:
        path = folder(tmp_path, tokenizer_config_json=text)
        with pytest.raises(TokenizerError, match=r"tokenizer_config\.json"):
            Model.from_folder(path, TEMPLATE)

    def test_half_a_surrogate_pair(self, tmp_path: Path) -> None:
        model = Model.from_folder(folder(tmp_path), TEMPLATE)
        with pytest.raises(TokenizerError, match="surrogate"):
            model.tokens({"messages": [user("a\ud83d")]})
