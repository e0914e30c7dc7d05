"""Which tokens does a server compute on for a chat request?"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

from kvagent.backends.llamacpp_prompt import LLAMACPP
from kvagent.backends.prompt import Dialect, Prompt
from kvagent.gguf import GGUF
from kvagent.tokens.gguf_tokenizer import GGUFTokenizer
from kvagent.tokens.template import ChatTemplate
from kvagent.tokens.tokenizer import Tokenizer


class Model:
    """A model's chat template and tokenizer, as one server uses them.

    Args:
        template: renders messages.
        tokenizer: gives the ids of what is rendered.
        dialect: what the server changes before and after.
    """

    exact = True

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer, dialect: Dialect) -> None:
        self.template = template
        self.tokenizer = tokenizer
        self.dialect = dialect
        self.name = tokenizer.name

    @classmethod
    def from_gguf(
        cls, path: str | PathLike[str], template: str | None = None, dialect: Dialect = LLAMACPP
    ) -> Self:
        """The model in a GGUF file; ``template`` is the text of another chat template."""
        gguf = GGUF.read(Path(path))
        tokenizer = GGUFTokenizer(gguf)
        source = template or gguf.metadata["tokenizer.chat_template"]
        variables = {f"{name}_token": tokenizer.token(name) or "" for name in ("bos", "eos")}
        made = ChatTemplate(dialect.mend(source), variables, adapt=dialect.adapt)
        return cls(made, tokenizer, dialect)

    def prompt(self, body: Mapping[str, Any]) -> str:
        """The text that the server tokenises for this request."""
        return self._prompt(body).text

    def tokens(self, body: Mapping[str, Any]) -> list[int]:
        """The ids that the server computes on for this request."""
        prompt = self._prompt(body)
        return self.tokenizer.encode(prompt.text, add_special=prompt.add_special)

    def count(self, text: str) -> int:
        """The tokens of a text as it stands within a prompt."""
        return len(self.tokenizer.encode(text))

    def _prompt(self, body: Mapping[str, Any]) -> Prompt:
        return self.dialect.prompt(body, self.template, self.tokenizer.edges)
