"""What does a real llama.cpp server say of a template, a tokenizer and a request?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from kvagent.backends import Fetch, Fetched, Server
from kvagent.backends.llamacpp_tokens import prompt
from kvagent.backends.prompt import PromptError
from kvagent.cli.connection import Connection
from kvagent.gguf import GGUF
from kvagent.tokens.server import ServerTokens
from tests.tokens.gguf_files import tiny_llama

SERVER = Server(kind="llama.cpp")


@dataclass(frozen=True, slots=True)
class Running:
    """One that runs; ``base_url`` ends in ``/v1``."""

    base_url: str

    @property
    def connection(self) -> Connection:
        return Connection(self.base_url.removesuffix("/v1"), self.base_url, timeout_s=60)

    def fetch(self, path: str, body: dict[str, Any] | None = None) -> Fetched:
        return self.connection.fetch(Fetch(path, "root", body))

    def props(self) -> dict[str, Any]:
        props: dict[str, Any] = orjson.loads(self.fetch("/props").body)
        return props

    def prompt(self, body: dict[str, Any]) -> str | None:
        """The rendered text; ``None`` if the request is refused."""
        try:
            return self.connection.run(prompt(body))
        except PromptError:
            return None

    def tokens(self, body: dict[str, Any]) -> list[int]:
        return self.connection.run(ServerTokens(SERVER).tokens(body))

    def encode(self, *texts: str, add_special: bool = False) -> list[int]:
        """The ids of all texts, one after the other; the server joins nothing."""
        asked = {"content": [*texts], "add_special": add_special, "parse_special": True}
        answer = self.fetch("/tokenize", asked)
        ids: list[int] = orjson.loads(answer.body)["tokens"]
        return ids


@contextmanager
def running(model: Path, template: Path | None = None) -> Iterator[Running]:
    """A server of its own."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import LlamaCpp

    with LlamaCpp(model, template, n_ctx=512, threads=1) as server:
        yield Running(server.base_url)


def smollm2() -> Path:
    """The model of the demo; the test is skipped without it."""
    from kvagent.cli.demo.server import ServerError, default_model

    try:
        return default_model()
    except ServerError as error:
        pytest.skip(str(error))


def tiny_smollm2(folder: Path) -> Path:
    """SmolLM2's tokenizer in a model that loads at once; it has no template."""
    metadata = GGUF.read(smollm2()).metadata
    tokenizer = {key: value for key, value in metadata.items() if key.startswith("tokenizer.ggml")}
    return tiny_llama(folder / "smollm2.gguf", tokenizer)


def differences(ours: Sequence[int], theirs: Sequence[int]) -> str:
    """Where two lists of ids part, for a message."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
    return f"at {at}: {ours[at : at + 8]} here, {theirs[at : at + 8]} there"
