"""Which tokens does a running server compute on, in its own words?

For a model whose files are elsewhere. Nothing here does I/O: each method asks for requests and is
sent their answers, as ``kvagent.backends.probe`` is.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from kvagent.backends import server_tokens
from kvagent.backends.values import Fetch, Fetched, Server


@dataclass(frozen=True, slots=True)
class ServerTokens:
    """A running server as template and tokenizer: what `Model` says, asked of the server itself.

    ``server`` is what probing it found.
    """

    server: Server

    @property
    def name(self) -> str:
        """What the counts come from."""
        return f"{self.server.kind} server of {self.server.model or 'an unnamed model'}"

    def tokens(self, body: Mapping[str, Any]) -> Generator[Fetch, Fetched, list[int]]:
        """The ids that it computes on for a chat request with this body.

        Raises:
            PromptError: it refuses the request, does not answer, or is of a kind that tells no
                tokens.
        """
        return (yield from server_tokens.tokens(self.server, body))

    def prompt(self, body: Mapping[str, Any]) -> Generator[Fetch, Fetched, str]:
        """The text that it tokenises for a chat request with this body.

        Raises:
            PromptError: as ``tokens``.
        """
        return (yield from server_tokens.prompt(self.server, body))

    def count(self, text: str) -> Generator[Fetch, Fetched, int]:
        """The tokens of a text by itself; beside other text, some at its ends may join."""
        return len((yield from server_tokens.text_tokens(self.server, text)))
