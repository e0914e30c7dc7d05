"""Which text does a template make of a prompt that only grew, without rendering all of it again?

Where a template is known to write each message by itself, the new messages are rendered behind a
short conversation. That is looked at again and again beside the real thing, and given up where it is
not the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kvagent.audit.conversations import Placed
from kvagent.backends.prompt import PromptError
from kvagent.prefixcache.seen import common_prefix

if TYPE_CHECKING:
    from kvagent.tokens.model import Model
    from kvagent.tokens.profile import TemplateProfile

# What a template may do and still write each message by itself.
_LOCAL = frozenset({"arguments_rewritten", "content_trimmed", "ignored", "results_merged"})

_CONTEXTS_HELD = 1_000

_ASKED: Mapping[str, Any] = {"role": "user", "content": "x"}
_CALLED: Mapping[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "abcdefgh1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    ],
}
_ANSWERED: Mapping[str, Any] = {"role": "tool", "tool_call_id": "abcdefgh1", "content": "x"}
_CONTEXTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "user": (_ASKED,),
    "assistant": (_ASKED, {"role": "assistant", "content": "x"}),
    "called": (_ASKED, _CALLED),
    "tool": (_ASKED, _CALLED, _ANSWERED),
}
"""By what the last message sent was: the shortest conversation that ends so."""


class Texts:
    """Renders prompts with a model's chat template."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._contexts: dict[tuple[Any, ...], tuple[Sequence[Mapping[str, Any]], str]] = {}
        self._composed = 0
        self._fits = True
        """Whether what was composed was what is rendered, wherever it was looked at."""

    @cached_property
    def profile(self) -> TemplateProfile | None:
        """What the template does to a prompt that grows; None where it cannot be told."""
        from kvagent.tokens.profile import profile_of

        try:
            return profile_of(self._model.template)
        except (PromptError, ValueError):
            return None

    def text(self, placed: Placed, last: str | None) -> tuple[str, int]:
        """The text, and how many of its characters begin the one before, ``last``.

        Raises:
            PromptError, TemplateError: the server or the template refuses the request.
        """
        from kvagent.tokens.template import TemplateError

        composed, is_refused, contexts = None, False, len(self._contexts)
        try:
            composed = None if last is None else self._grown(placed, last)
        except (PromptError, TemplateError):
            is_refused = True
        if composed is not None:
            self._composed += 1
            # Behind a context for the first time, too: its calls are not those of the prompt.
            if len(self._contexts) == contexts and not is_looked_at(self._composed):
                return composed
        text = self._model.prompt(body_of(placed))
        if is_refused or (composed is not None and composed[0] != text):
            self._fits = False
        return text, 0 if last is None else common_prefix(last, text)

    def _grown(self, placed: Placed, last: str) -> tuple[str, int] | None:
        """The same, if the request only adds messages and the template writes each by itself."""
        before = placed.before
        if before is None or not placed.only_grew:
            return None
        fresh = placed.request.messages[placed.common :]
        ends = before.messages[-1]
        role = "called" if b'"tool_calls":[{' in ends.raw else ends.role
        if not fresh or role not in _CONTEXTS or not (self._fits and self._is_local):
            return None
        options = placed.request.options
        key = (
            role,
            *[str(message.get("role")) for message in fresh],
            *placed.snapshot.options.items(),
        )
        held = self._contexts.get(key)
        if held is None:
            held = self._shortest(_CONTEXTS[role], options, fresh)
            if len(self._contexts) >= _CONTEXTS_HELD:
                self._contexts.clear()
            self._contexts[key] = held
        context, shown = held
        after = self._model.prompt({**options, "messages": [*context, *fresh]})
        same = common_prefix(shown, after)
        gone = shown[same:]
        if not last.endswith(gone):
            return None
        kept = len(last) - len(gone)
        return last[:kept] + after[same:], kept

    def _shortest(
        self,
        context: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        fresh: Sequence[Mapping[str, Any]],
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """The end of a context behind which messages are written as behind all of it, and its text."""
        from kvagent.tokens.template import TemplateError

        def written(start: int) -> tuple[str, str, str]:
            before = self._model.prompt({**options, "messages": [*context[start:]]})
            after = self._model.prompt({**options, "messages": [*context[start:], *fresh]})
            same = common_prefix(before, after)
            return before, before[same:], after[same:]

        whole, *changes = written(0)
        for start in range(len(context) - 1, 0, -1):
            try:
                before, *others = written(start)
            except (PromptError, TemplateError):
                continue  # no conversation begins so
            if others == changes:
                return context[start:], before
        return context, whole

    @cached_property
    def _is_local(self) -> bool:
        """Whether the template writes each message by itself."""
        if self._model.tool_template is not None or self.profile is None:
            return False
        return self.profile.worst().keys() <= _LOCAL


def body_of(placed: Placed) -> dict[str, Any]:
    """What the server is sent."""
    request = placed.request
    body = {**request.options, "messages": list(request.messages)}
    return {**body, "tools": list(request.tools)} if request.tools else body


def is_looked_at(number: int) -> bool:
    """Whether it is 1, 4, 16, ...: there one looks at the whole, ever more rarely."""
    return number & (number - 1) == 0 and number.bit_length() % 2 == 1
