"""What does a server hand to its chat template for one request?

Each server changes a request before its template sees it. How is in the server's own file beside
this one; the values that come out are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class PromptError(ValueError):
    """The server would refuse this request, or what it makes of it is not known here.

    The message says what to send, or to pass, instead.
    """


class Template(Protocol):
    """What a dialect may ask of a chat template before it prepares a request for it."""

    @property
    def source(self) -> str:
        """The template's text."""

    @property
    def undeclared(self) -> frozenset[str]:
        """The variables that it reads and does not set."""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt."""


@dataclass(frozen=True, slots=True)
class TemplateInput:
    """What the template is rendered with."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server's way from a request body to the tokens of its prompt.

    ``finish`` takes the request's body, the template's input and the rendered text, and gives the
    text that is tokenised. ``add_special`` says whether the tokenizer's own first and last tokens
    (bos, eos) are added to it.
    """

    name: str
    prepare: Callable[[Mapping[str, Any], Template], TemplateInput]
    tojson: Callable[..., str] | None = None
