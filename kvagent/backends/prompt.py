"""What does a server tokenise for a chat request?

Each server changes a request before its chat template sees it, renders the template in its own way,
and finishes the text. How is in the server's own files beside this one; here are the values that
are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes


class PromptError(ValueError):
    """The server refuses this request, or what it makes of it is not known here.

    The message says what to send or to pass ``instead``; ``fault`` is the message without that, for
    commands that cannot be passed it.
    """

    def __init__(self, fault: str, instead: str = "") -> None:
        super().__init__(f"{fault}: {instead}" if instead else fault)
        self.fault = fault


class Template(Protocol):
    """What a dialect asks of a chat template."""

    @property
    def source(self) -> str:
        """The template's text."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """What it is rendered with beside the request, such as ``bos_token``."""

    @property
    def undeclared(self) -> frozenset[str]:
        """The variables that it reads and does not set."""

    def __hash__(self) -> int:
        """What is learnt of a template is kept under it."""

    def tree(self) -> nodes.Template:
        """The template's syntax."""

    def now(self) -> datetime:
        """The time that it prints."""

    def fill(self, variables: Mapping[str, Any]) -> str:
        """The template with exactly these variables and its own."""


@dataclass(frozen=True, slots=True)
class Edges:
    """The tokens, as text, that a tokenizer adds at both ends of a prompt; "" is none."""

    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text that is tokenised, and whether the tokenizer adds its edges to it."""

    text: str
    add_special: bool


def _as_written(source: str) -> str:
    return source


def _as_jinja(_: jinja2.Environment) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server's way from the body of a chat request to the text of its prompt.

    ``prompt`` takes the body (parsed JSON, left as it is), the template and the tokenizer's edges.
    ``mend`` changes a template's source as the server does when it loads it, ``adapt`` makes a
    jinja2 environment render as the server's engine does. ``default_template`` stands in for a
    model that has none. ``own_renderers`` are the kinds of model (``model_type``) that the server
    renders with code of its own, whatever their template says.
    """

    name: str
    prompt: Callable[[Mapping[str, Any], Template, Edges], Prompt]
    mend: Callable[[str], str] = _as_written
    adapt: Callable[[jinja2.Environment], None] = _as_jinja
    default_template: str | None = None
    own_renderers: frozenset[str] = frozenset()


def messages_of(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The body's messages; ``PromptError`` if it has none, or something else in their place."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(
        isinstance(each, (dict, Mapping))
        for each in messages  # most are: that is asked in no time
    ):
        raise PromptError("the body has no list of messages: pass the body of a chat request")
    return messages
