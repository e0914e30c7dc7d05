"""Does any file, however damaged, come to a report in every form, or to one sentence that says why not?"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from rich.console import Console

from kvagent.audit import report as reports
from kvagent.audit.counting import Counting, counting_of
from kvagent.audit.redact import redacted
from kvagent.audit.report import html
from kvagent.audit.report.terminal import show
from kvagent.audit.run import Auditor
from kvagent.audit.session import Report, Session
from kvagent.audit.settings import Settings
from kvagent.audit.transcript import NoTranscript
from tests.audit.formats.mutants import mutant, written, wrong
from tests.audit.formats.test_formats import SAMPLES
from tests.audit.logs import TOOLS, session

# More of them, in a long run: KVAGENT_MUTANTS=100000.
MUTANTS = int(os.environ.get("KVAGENT_MUTANTS", "300"))

NAMES = sorted(each.name for each in iter_modules(reports.__path__))
WRITERS: dict[str, Callable[[Report], str]] = {
    name: module.write
    for name in NAMES
    if hasattr(module := import_module(f"{reports.__name__}.{name}"), "write")
}

SERVERS = (
    Settings(what_if=False),
    Settings(what_if=False, blocks=20, block_size=8, window=4_000),
    Settings(what_if=False, server="llama.cpp", slots=2, window=500),
    Settings(what_if=False, kv_model="llama-3.1-8b"),
    Settings(),
)


def log(chance: random.Random) -> list[Any]:
    """A log of requests with all that a proxy may write beside them."""
    prompts = session("a", chance.randrange(1, 6), chance.randrange(9))
    if chance.random() < 0.5:
        prompts += session("b", chance.randrange(1, 4), chance.randrange(9))
    if chance.random() < 0.3:
        chance.shuffle(prompts)
    records = []
    for number, prompt in enumerate(prompts):
        cached = chance.choice((0, 10, None, 10**9))
        usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": cached}}
        answer: dict[str, Any] = {"choices": [{"message": prompt[-1]}], "usage": usage}
        if chance.random() < 0.1:
            text = "This model's maximum context length is 10 tokens, you requested 99."
            answer = {"error": {"message": text, "code": 400}}
        body = {"model": "m", "messages": prompt, "tools": TOOLS[: chance.choice((2, 2, 2, 1))]}
        if chance.random() < 0.2:
            body = wrong(body, chance)
        records.append({"ts": number, "request": body, "response": answer})
    return records


@cache
def counting(number: int) -> Counting:
    """Estimated for each server, and exact with a template."""
    return counting_of(SERVERS[number])


@cache
def exact() -> Counting:
    from kvagent.audit.rendered import Exact
    from tests.audit.test_rendered import model
    from tests.tokens.toy_templates import Toy

    toy = Toy(reasoning="loop", system="strict", results="merged").source()
    return Counting(lambda: Exact(model(toy)))


def auditor(chance: random.Random) -> Auditor:
    number = chance.randrange(len(SERVERS))
    given = exact() if chance.random() < 0.2 else counting(number)
    return Auditor(SERVERS[number], counting=given)


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """The page's templates, which are compiled for each page, are so once for all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "_environment", cache(html._environment))
        yield


def told(report: Report, width: int = 80, details: bool = True) -> dict[str, str]:
    """The report in every form."""
    texts = {name: write(report) for name, write in WRITERS.items()}
    file = io.StringIO()
    show(report, Console(file=file, width=width), details=details)
    return {**texts, "terminal": file.getvalue()}


def check(found: Session) -> None:
    """What holds of every session, whatever was in the file."""
    totals = found.totals
    assert totals.requests == found.requests
    assert found.unreadable_count >= len(found.unreadable)
    assert totals.predicted_tokens <= totals.prompt_tokens
    for row in found.rows:
        parts = row.parts
        assert parts.head + parts.user + parts.assistant + parts.tool == row.prompt_tokens
        assert 0 <= row.reusable_tokens <= row.prompt_tokens
        assert (row.predicted_tokens or 0) <= row.reusable_tokens
        assert 0 <= row.wasted_tokens <= row.prompt_tokens
    messages = {(row.conversation, row.number): row.messages for row in found.rows}
    for finding in found.findings:
        assert finding.count >= len(finding.spots) > 0
        assert finding.said
        assert finding.tokens >= 0
        for spot in finding.spots:
            if spot.message is not None:
                assert 0 <= spot.message < messages[spot.conversation, spot.turn]
    for timeline in found.timelines.values():
        assert len(timeline.roles) == len(timeline.tokens) == len(timeline.turns)


def survive(data: bytes, chance: random.Random, path: Path) -> None:
    """Audit the bytes as a file, and write all reports of it."""
    path.write_bytes(data)
    chosen = auditor(chance)
    found, refused = audited(chosen, path)
    if found is None:
        assert refused.endswith(".")
        assert "\n" not in refused
        return
    check(found)
    report = Report([found])
    shape = chance.choice((20, 40, 80, 80, 300)), chance.random() < 0.6
    texts = told(report, *shape)
    assert all(text.strip() for name, text in texts.items() if name != "github")
    if chance.random() < 0.1:
        assert told(Report([chosen.file(path)]), *shape) == texts
    if chance.random() < 0.2:
        told(redacted(report, lambda text: len(text) // 4), *shape)


def audited(chosen: Auditor, path: Path) -> tuple[Session | None, str]:
    """The session, or why there is none."""
    try:
        return chosen.file(path), ""
    except NoTranscript as error:
        return None, str(error)


def damaged_log(chance: random.Random) -> bytes:
    """The file of a format, or a log of requests, with something wrong in most."""
    if chance.random() < 0.4:
        values = SAMPLES[chance.choice(sorted(SAMPLES))]
    else:
        values = log(chance)
    if chance.random() < 0.1:
        return b"\n".join(written(value, chance).replace(b"\n", b" ") for value in values)
    return mutant(values, chance)


def test_mutants_come_to_a_report(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the extra `audit`")
    pytest.importorskip("tokenizers", reason="needs the extra `exact`")
    for seed in range(MUTANTS):
        chance = random.Random(seed)
        survive(damaged_log(chance), chance, tmp_path / "log.jsonl")
