"""What should a conversation's requests say, so that the chat template keeps their prefix?

Answered from the template's profile, which is made when it is first needed and kept under the
template's hash.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Mapping
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING, Any

import orjson

from kvagent.backends import Server
from kvagent.hints import added
from kvagent.policy import Mend
from kvagent.stores import Store

if TYPE_CHECKING:
    from kvagent.tokens.mending import Mending
    from kvagent.tokens.profile import TemplateProfile

logger = logging.getLogger("kvagent")

_KWARGS = b'"chat_template_kwargs":'
_MESSAGES = re.compile(rb'"messages"\s*:\s*\[')

OPENING = b'{"role":"system","content":"You are a helpful assistant."}'
"""What takes the place of a template's own system message; it says as little as can be."""


class Mender:
    """Knows what a server's template needs; safe to use from several threads."""

    def __init__(self, mend: Mend | None, store: Store) -> None:
        self._mend = mend
        self._store = store
        self._profiles: dict[tuple[str, str], TemplateProfile | None] = {}
        self._mendings: dict[tuple[str, str, date], Mending] = {}
        self._lock = Lock()

    def resends_reasoning(self, server: Server | None) -> bool:
        """Whether a prompt keeps its prefix at least as well with the reasoning of old turns."""
        if self._mend is None or not self._mend.reasoning:
            return False
        means = self._mending(server)
        return means is not None and means.resend_reasoning is True

    def switches(self, server: Server | None) -> bytes:
        """The ``chat_template_kwargs`` of a conversation that begins now, as JSON; empty for none."""
        if self._mend is None or not self._mend.switches:
            return b""
        means = self._mending(server)
        if means is None or not means.chat_template_kwargs:
            return b""
        return orjson.dumps(dict(means.chat_template_kwargs), option=orjson.OPT_SORT_KEYS)

    def opening(self, server: Server | None) -> bytes:
        """The system message of a conversation that begins now without one; empty for none."""
        if self._mend is None or not self._mend.system_message:
            return b""
        means = self._mending(server)
        return OPENING if means is not None and means.system_message else b""

    def _mending(self, server: Server | None) -> Mending | None:
        """What helps on this day, worked out once: replies ask for it turn by turn."""
        profile = self.profile(server)
        if server is None or profile is None:
            return None
        key = server.kind, profile.template, _today()
        if key not in self._mendings:
            from kvagent.tokens.mending import mending

            self._mendings[key] = mending(profile, key[-1])
        return self._mendings[key]

    def profile(self, server: Server | None) -> TemplateProfile | None:
        """The profile of the server's template; None where it is not known or cannot be read."""
        if server is None or server.template is None:
            return None
        key = server.kind, server.template
        with self._lock:
            if key not in self._profiles:
                self._profiles[key] = self._tried(server, server.template)
            return self._profiles[key]

    def _tried(self, server: Server, source: str) -> TemplateProfile | None:
        if importlib.util.find_spec("jinja2") is None:
            if self._mend is not None and self._mend.switches:
                logger.warning("kvagent sets no switches: that needs kvagent[exact]")
            return None
        try:
            return self._made(server, source)
        except Exception:
            logger.warning("kvagent cannot profile the chat template", exc_info=True)
            return None

    def _made(self, server: Server, source: str) -> TemplateProfile:
        from kvagent.backends.dialects import dialect_of
        from kvagent.backends.prompt import Edges, PromptError
        from kvagent.tokens.conversations import Probe, Refused
        from kvagent.tokens.profile import TemplateProfile, answered, profile_template
        from kvagent.tokens.template import ChatTemplate, TemplateError

        dialect = dialect_of(server)
        no_edges = {"bos_token": "", "eos_token": ""}
        template = ChatTemplate(dialect.mend(source), no_edges, adapt=dialect.adapt)
        key = f"template:{dialect.name}:{template.hash}".encode()
        for record in reversed(self._store.get("", key)):
            try:
                return TemplateProfile.parse(record)
            except ValueError:
                logger.debug("a profile in the store cannot be read; it is made anew")

        def render(probe: Probe) -> str | Refused:
            try:
                return dialect.prompt(probe.body, template, Edges()).text
            except (PromptError, TemplateError) as error:
                return Refused(str(error))

        profiling = profile_template(template.hash, template.undeclared, _today())
        profile = answered(profiling, render)
        self._store.add("", key, profile.json())
        return profile


def _today() -> date:
    return date.today()  # noqa: DTZ011  (the server's own day, which is local)


def with_switches(body: bytes, request: Mapping[str, Any], switches: bytes) -> bytes:
    """A request's bytes with more ``chat_template_kwargs``; what the agent sets itself stays.

    The same bytes where its own cannot be found in them with certainty.
    """
    if not switches:
        return body
    own = request.get("chat_template_kwargs")
    if own is None and "chat_template_kwargs" not in request:
        return added(body, {"chat_template_kwargs": orjson.loads(switches)})
    if not isinstance(own, dict):
        return body
    merged = {**orjson.loads(switches), **own}
    before = _KWARGS + orjson.dumps(own)
    if body.count(before) != 1:
        return body
    return body.replace(before, _KWARGS + orjson.dumps(merged))


def with_opening(body: bytes, opening: bytes) -> bytes:
    """A request's bytes with one more message in front.

    The same bytes where the place of the messages cannot be found with certainty.
    """
    places = _MESSAGES.findall(body)
    if not opening or len(places) != 1:
        return body
    return body.replace(places[0], places[0] + opening + b",")
