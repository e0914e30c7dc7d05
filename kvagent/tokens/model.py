"""Which tokens does a server compute on for a chat request?"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

from kvagent.backends.llamacpp_prompt import LLAMACPP
from kvagent.backends.prompt import Dialect, Prompt
from kvagent.backends.vllm_prompt import VLLM
from kvagent.gguf import GGUF
from kvagent.tokens.gguf_tokenizer import GGUFTokenizer
from kvagent.tokens.huggingface import Folder, FolderTokenizer
from kvagent.tokens.template import ChatTemplate, TemplateError
from kvagent.tokens.tokenizer import Tokenizer


class Model:
    """A model's chat template and tokenizer, as one server uses them; safe in threads.

    It is a counter too: its counts are exact.

    Args:
        template: renders messages.
        tokenizer: gives the ids of what is rendered.
        dialect: what the server changes before and after.
        tool_template: goes before ``template`` for requests with tools.
    """

    exact = True

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        dialect: Dialect,
        tool_template: ChatTemplate | None = None,
    ) -> None:
        self.template = template
        self.tool_template = tool_template
        self.tokenizer = tokenizer
        self.dialect = dialect

    @property
    def name(self) -> str:
        """What the counts come from."""
        return self.tokenizer.name

    @classmethod
    def from_gguf(
        cls,
        path: str | PathLike[str],
        template: str | None = None,
        dialect: Dialect = LLAMACPP,
    ) -> Self:
        """The model in a GGUF file.

        Args:
            path: the file; of a model in several, the first one.
            template: the text of another chat template than the file's own.
            dialect: of the server that runs it.

        Raises:
            OSError, GGUFError: the file cannot be read, or is none.
            TokenizerError: its tokenizer is missing, or of a kind not known here.
            TemplateError: it has no template that can be used.
        """
        gguf = GGUF.read(path)
        tokenizer = GGUFTokenizer(gguf)
        key = "tokenizer.chat_template"
        written = {
            "default": gguf.metadata.get(key),
            "tool_use": gguf.metadata.get(f"{key}.tool_use"),
        }
        variables = {f"{name}_token": tokenizer.token(name) or "" for name in ("bos", "eos")}
        return cls._made(written, template, variables, tokenizer, dialect, gguf.path)

    @classmethod
    def from_folder(
        cls, path: str | PathLike[str], template: str | None = None, dialect: Dialect = VLLM
    ) -> Self:
        """The model in a Hugging Face folder; see ``from_gguf``.

        Raises:
            OSError: a file in the folder cannot be read.
            TokenizerError: there is no ``tokenizer.json`` that can be used.
            TemplateError: there is no template that can be used.
        """
        folder = Folder(Path(path))
        if folder.model_type in dialect.own_renderers:
            raise TemplateError(
                f"{dialect.name} renders {folder.model_type} with code of its own and no template: "
                "ask the running server for its tokens instead"
            )
        return cls._made(
            folder.templates,
            template,
            folder.special_tokens,
            FolderTokenizer(folder.path),
            dialect,
            folder.path,
        )

    @classmethod
    def _made(
        cls,
        written: Mapping[str, str | None],
        template: str | None,
        variables: Mapping[str, Any],
        tokenizer: Tokenizer,
        dialect: Dialect,
        path: Path,
    ) -> Self:
        def make(source: str | None) -> ChatTemplate | None:
            return (
                ChatTemplate(dialect.mend(source), variables, adapt=dialect.adapt)
                if source
                else None
            )

        tool = None if template else make(written.get("tool_use"))
        default = make(template or written.get("default")) or tool or make(dialect.default_template)
        if default is None:
            raise TemplateError(f"{path} has no chat template: pass the text of one as `template`")
        return cls(default, tokenizer, dialect, tool)

    def prompt(self, body: Mapping[str, Any]) -> str:
        """The text that the server tokenises for a chat request with this body.

        Raises:
            PromptError: the server refuses such a request, or it has images or the like.
            TemplateError: the template refuses it.
        """
        return self._prompt(body).text

    def tokens(self, body: Mapping[str, Any]) -> list[int]:
        """The ids that the server computes on for a chat request with this body; see ``prompt``."""
        prompt = self._prompt(body)
        return self.tokenizer.encode(prompt.text, add_special=prompt.add_special)

    def count(self, text: str) -> int:
        """The tokens of a text by itself; beside other text, some at its ends may join."""
        return len(self.tokenizer.encode(text))

    def _prompt(self, body: Mapping[str, Any]) -> Prompt:
        template = self.tool_template if self.tool_template and body.get("tools") else self.template
        return self.dialect.prompt(body, template, self.tokenizer.edges)
