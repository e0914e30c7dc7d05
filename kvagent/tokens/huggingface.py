"""Which template and which tokenizer does a Hugging Face folder hold?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvagent.backends.prompt import Edges
from kvagent.tokens.template import TemplateError
from kvagent.tokens.tokenizer import TokenizerError

if TYPE_CHECKING:
    import tokenizers

# The tokens that have a name, and are variables of the template.
_NAMED = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)


@dataclass(frozen=True)
class Folder:
    """What a model's folder says: its files, read when they are asked for.

    Raises:
        OSError: the folder, or a file in it, cannot be read.
        TokenizerError: a file in it is no JSON object.
    """

    path: Path

    def json(self, name: str) -> Mapping[str, Any]:
        """The object in a file of this name; empty if there is no such file."""
        file = self.path / name
        if not file.is_file():
            return {}
        try:
            value = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TokenizerError(f"{file} is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise TokenizerError(f"{file} holds no JSON object")
        return value

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """``tokenizer_config.json``."""
        return self.json("tokenizer_config.json")

    @cached_property
    def model_type(self) -> str:
        """The kind of model that ``config.json`` names; empty if it names none."""
        return str(self.json("config.json").get("model_type", ""))

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """The chat templates by name, ``default`` and such as ``tool_use``.

        A file of its own goes before what stands in ``tokenizer_config.json``.
        """
        found: dict[str, str] = {}
        written = self.config.get("chat_template")
        if isinstance(written, str):
            found["default"] = written
        elif isinstance(written, list):
            found |= {each["name"]: each["template"] for each in written}
        for folder in ("chat_templates", "additional_chat_templates"):
            for file in sorted((self.path / folder).glob("*.jinja")):
                found[file.stem] = file.read_text(encoding="utf-8")
        own = self.path / "chat_template.jinja"
        if own.is_file():
            found["default"] = own.read_text(encoding="utf-8")
        return found

    def template(self, name: str = "default") -> str:
        """The template of this name; ``TemplateError`` if the folder has none."""
        if name not in self.templates:
            raise TemplateError(
                f"{self.path} holds no chat template: pass the text of one, or the folder of the "
                "model's chat version"
            )
        return self.templates[name]

    @cached_property
    def special_tokens(self) -> Mapping[str, str]:
        """``bos_token``, ``eos_token`` and their like, as text."""
        said = {**self.json("special_tokens_map.json"), **self.config}
        found = {}
        for name in _NAMED:
            value = said.get(name)
            text = value.get("content") if isinstance(value, Mapping) else value
            if isinstance(text, str):
                found[name] = text
        return found

    @cached_property
    def stop_tokens(self) -> frozenset[int]:
        """The ids that end a reply, from ``generation_config.json`` and ``config.json``."""
        for name in ("generation_config.json", "config.json"):
            said = self.json(name).get("eos_token_id")
            if said is not None:
                return frozenset(said if isinstance(said, list) else (said,))
        return frozenset()


class FolderTokenizer:
    """The tokenizer in a folder's ``tokenizer.json``, taken as it stands; safe in threads.

    Raises:
        TokenizerError: there is none, or it cannot be read.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        file = Path(folder) / "tokenizer.json"
        self.name = f"tokenizer of {file.parent.name}"
        self._tokenizer = _load(file)
        # Added to a prompt only if a request asks for it: what they are matters to no dialect.
        self.edges = Edges()

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        """The ids of ``text``; ``add_special`` runs the file's post-processor."""
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special).ids
        except (TypeError, UnicodeError) as error:
            raise TokenizerError("the text is no text: it holds half a surrogate pair") from error
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """``encode`` of each text; the library uses the threads that it is allowed."""
        try:
            # Without the places of tokens in the text, which take a fifth of the time.
            encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except (TypeError, UnicodeError) as error:
            raise TokenizerError("a text is no text: it holds half a surrogate pair") from error
        return [each.ids for each in encoded]


def _load(file: Path) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer

    if not file.is_file():
        raise TokenizerError(
            f"{file.parent} has no tokenizer.json: pass a folder that has one, or the model's GGUF"
        )
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise TokenizerError(f"{file} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
