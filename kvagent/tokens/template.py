"""What prompt does a chat template make of messages?

Templates render as in both servers: jinja2's immutable sandbox, blocks trimmed, ``tojson`` that
keeps the order of keys and escapes nothing for HTML, ``raise_exception``, ``strftime_now``, loop
controls, and ``{% generation %}`` blocks that render as what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes


# What templates ask of the loop in which they are.
_OF_LOOPS = frozenset({"first", "index", "index0", "last", "length", "nextitem", "previtem"})


class TemplateError(ValueError):
    """The template cannot be read, or refuses these messages; the message is the template's own."""


def _local_now() -> datetime:
    return datetime.now().astimezone()


class ChatTemplate:
    """One chat template, compiled once; rendering holds no state and is safe in threads.

    Args:
        source: the jinja text.
        variables: what the template may use beside the messages, such as ``bos_token``.
        now: the clock that ``strftime_now`` reads.
        adapt: changes the environment that it renders in, for a server whose engine differs.

    Raises:
        TemplateError: the source is no valid template.
    """

    def __init__(
        self,
        source: str,
        variables: Mapping[str, Any] | None = None,
        *,
        now: Callable[[], datetime] = _local_now,
        adapt: Callable[[jinja2.Environment], None] | None = None,
    ) -> None:
        import jinja2

        self.source = source
        self.variables = dict(variables or {})
        self.now = now
        environment = _environment(now)
        if adapt:
            adapt(environment)
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise TemplateError(f"the chat template cannot be read: {error}") from error
        self._given = {**self._template.globals, **self.variables}

    @cached_property
    def hash(self) -> str:
        """Names the source; what is known of a template is kept under it."""
        return blake2b(self.source.encode(), digest_size=16).hexdigest()

    @cached_property
    def undeclared(self) -> frozenset[str]:
        """The variables that the template reads and does not set: those a request may give."""
        from jinja2 import meta

        return frozenset(meta.find_undeclared_variables(self.tree()))

    def tree(self) -> nodes.Template:
        """The template's syntax, as jinja2 reads it."""
        return _environment(self.now).parse(self.source)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt; ``variables`` go before the template's own.

        Raises:
            TemplateError: the template refuses these messages, or fails on them.
        """
        given = {"messages": messages, "tools": tools}
        return self.fill(
            {**given, "add_generation_prompt": add_generation_prompt, **(variables or {})}
        )

    def fill(self, variables: Mapping[str, Any]) -> str:
        """The template with exactly these variables and its own; nothing else is defined in it.

        Raises:
            TemplateError: the template refuses them, or fails on them.
        """
        try:
            # What ``render`` does, without collecting the globals each time: a third of a short one.
            context = self._template.new_context({**self._given, **variables}, shared=True)
            return "".join(self._template.root_render_func(context))
        except Exception as error:  # a template runs code of its own: anything may come out
            raise TemplateError(str(error) or type(error).__name__) from error


def _environment(now: Callable[[], datetime]) -> jinja2.Environment:
    from jinja2.exceptions import TemplateError as JinjaError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks what the model wrote, for training; it renders as its text."""

        tags = {"generation"}  # noqa: RUF012  (as jinja2 declares it)

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))

    def refuse(message: str) -> None:
        raise JinjaError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    methods = frozenset(dir(dict))

    class Sandbox(ImmutableSandboxedEnvironment):
        """Finds at once what templates mostly ask for: a key of a message, and where a loop is."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            kind = type(obj)
            if kind is dict and attribute not in methods:
                if attribute in obj:
                    return obj[attribute]
                return self.undefined(obj=obj, name=attribute)
            if kind is LoopContext and attribute in _OF_LOOPS:
                return getattr(obj, attribute)
            return super().getattr(obj, attribute)

    environment = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda style: now().strftime(style)
    return environment
