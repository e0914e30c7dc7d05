"""Does a real llama.cpp do to its prompts what the template's profile says?"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from kvagent.cli.demo.server import LlamaCpp
from kvagent.tokens.conversations import Probe, Refused
from kvagent.tokens.mending import mending
from kvagent.tokens.profile import TemplateProfile, answered, profile_of, profile_template
from kvagent.tokens.template import ChatTemplate
from tests.tokens.toy_templates import Toy

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")


class Server:
    """A llama.cpp with a template, asked for prompts."""

    def __init__(self, connection: http.client.HTTPConnection, source: str) -> None:
        self._connection = connection
        self._source = source

    def profile(self) -> TemplateProfile:
        """Found through ``/apply-template``; its variables are not known."""
        return answered(profile_template("served", today=_server_day()), self._render)

    def local(self) -> TemplateProfile:
        """Found in the file, with the model's own special tokens."""
        _, props = self._ask("GET", "/props")
        tokens = {name: props[name] for name in ("bos_token", "eos_token")}
        return profile_of(ChatTemplate(self._source, tokens))

    def _render(self, probe: Probe) -> str | Refused:
        status, answer = self._ask("POST", "/apply-template", probe.body)
        return str(answer["prompt"]) if status == 200 else Refused(answer["error"]["message"])

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        self._connection.request(method, path, json.dumps(body) if body else None)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


def _server_day() -> date:
    return date.today()  # noqa: DTZ011  (the server's clock is this machine's)


@contextmanager
def serving(template: Path) -> Iterator[Server]:
    with LlamaCpp(template=template, n_ctx=512, threads=1) as server:
        address = urllib.parse.urlsplit(server.base_url)
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        with closing(connection):
            yield Server(connection, template.read_text(encoding="utf-8"))


def agree(served: TemplateProfile, local: TemplateProfile, *, but: frozenset[str]) -> None:
    """Both say the same of every growth, and find the same hazards, ``but`` for these."""
    for name, outcome in local.outcomes.items():
        if name not in but:
            assert str(served.outcomes[name]) == str(outcome), name
    here, there = (
        {(hazard.code, hazard.where) for hazard in profile.hazards if hazard.where not in but}
        for profile in (local, served)
    )
    assert there == here
    assert (served.positions, served.arguments) == (local.positions, local.arguments)
    assert (served.reasoning, served.settled) == (local.reasoning, local.settled)


CONTINUED = frozenset({"late_system"})
"""Measured with a prompt that ends with an answer: llama.cpp takes that one for a beginning, and
lets the model go on with it."""


@pytest.mark.parametrize(
    "toy",
    [
        Toy(reasoning="loop", ask="closed", results="merged", tools="last_user"),
        Toy(reasoning="loop", switch="preserve_thinking", system="strict", arguments="xml"),
    ],
    ids=["hazardous", "mended"],
)
def test_own_templates(tmp_path: Path, toy: Toy) -> None:
    file = tmp_path / "toy.jinja"
    file.write_text(toy.source(), encoding="utf-8")
    with serving(file) as server:
        agree(server.profile(), server.local(), but=CONTINUED)


def test_the_date(tmp_path: Path) -> None:
    """llama.cpp gives ``date_string`` by itself; the request can still say which day it is."""
    file = tmp_path / "toy.jinja"
    file.write_text(Toy(date="pinned").source(), encoding="utf-8")
    with serving(file) as server:
        served = server.profile()
    assert set(served.dates) == {"strftime_now", "date_string kwarg", "nosys"}
    kwargs = mending(served, date(2031, 1, 2)).chat_template_kwargs
    assert kwargs == {"date_string": "02 Jan 2031"}


@pytest.mark.parametrize(
    ("name", "but"),
    [
        ("Qwen-Qwen3-0.6B", CONTINUED),
        ("MiniMax-M2", CONTINUED),
        # llama.cpp renders without tools where the request has none; the file is told of None.
        ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", CONTINUED | {"without_tools"}),
    ],
)
def test_real_templates(shared: Path, name: str, but: frozenset[str]) -> None:
    with serving(shared / "data" / "chat_templates" / f"{name}.jinja") as server:
        agree(server.profile(), server.local(), but=but)


def test_thoughts_and_words_beside_a_call(shared: Path) -> None:
    """This template takes no two of them. llama.cpp leaves out the words; a file refuses."""
    with serving(shared / "data" / "chat_templates" / "openai-gpt-oss-120b.jinja") as server:
        served, local = server.profile(), server.local()
    spoken = {
        name
        for name, outcome in local.outcomes.items()
        if name.startswith("spoken_") and outcome.lost is None
    }
    assert spoken
    for name in spoken:
        assert str(served.outcomes[name]) == str(local.outcomes[name.removeprefix("spoken_")])
    agree(served, local, but=CONTINUED | spoken)
