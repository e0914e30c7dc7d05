"""What does this server's chat template do, as the server itself renders it?

Some hundred tiny conversations are rendered; none is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from datetime import date
from typing import Any

from kvagent.backends import Fetch, Fetched, PromptError, Server
from kvagent.backends.server_tokens import prompt
from kvagent.tokens.conversations import Refused
from kvagent.tokens.profile import TemplateProfile, profile_template
from kvagent.tokens.template import ChatTemplate, TemplateError


def profile_server(server: Server) -> Generator[Fetch, Fetched, TemplateProfile]:
    """Ask for the prompts; ``PromptError`` where the server renders none at all."""
    yield from prompt(server, _named(server, {"messages": [{"role": "user", "content": "Hello"}]}))
    profiling = profile_template("served", _undeclared(server), date.today())  # noqa: DTZ011
    probe = next(profiling)
    while True:
        rendered: str | Refused
        try:
            rendered = yield from prompt(server, _named(server, probe.body))
        except PromptError as error:
            rendered = Refused(str(error))
        try:
            probe = profiling.send(rendered)
        except StopIteration as stop:
            profile: TemplateProfile = stop.value
            return profile


def _named(server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "model": server.model} if server.model else dict(body)


def _undeclared(server: Server) -> Collection[str] | None:
    """The template's variables, where it is known."""
    if server.template is None:
        return None
    try:
        return ChatTemplate(server.template).undeclared
    except (ImportError, TemplateError):
        return None
