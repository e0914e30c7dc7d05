"""What do the rules of head and history say of a log?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.findings import Findings
from kvagent.audit.formats import read
from kvagent.audit.prompts import Prompts
from kvagent.audit.rule import Finding, Sighting
from kvagent.audit.rules.heads import Heads
from kvagent.audit.rules.prefix import Prefix
from kvagent.audit.transcript import Item
from kvagent.audit.turns import Analysis, Turn
from tests.audit.logs import Message, request


def sightings(items: Iterable[Item], prompts: Prompts | None = None) -> list[Sighting]:
    """All that is seen, in the order in which it is told."""
    analysis, checks = Analysis(prompts), (Prefix(), Heads())
    seen: list[Sighting] = []
    for turn in analysis.turns(items):
        if isinstance(turn, Turn):
            for check in checks:
                seen += check.turn(turn)
    for check in checks:
        seen += check.end()
    return seen


def of_file(path: Path, prompts: Prompts | None = None) -> list[Sighting]:
    """What is seen in a file."""
    return sightings(read(path), prompts)


def of_prompts(*prompts: Sequence[Message], **more: Any) -> list[Sighting]:
    """What is seen in a conversation that was sent so."""
    return sightings(request(prompt, at, **more) for at, prompt in enumerate(prompts, 1))


def findings(seen: Iterable[Sighting]) -> Sequence[Finding]:
    """The same as faults."""
    found = Findings()
    found.add(seen)
    return found.all()


def codes(seen: Iterable[Sighting]) -> set[str]:
    return {each.rule.code for each in seen}


def qwen(shared: Path) -> Prompts:
    """The very prompts of Qwen2.5; the test is skipped where its tokenizer is not there."""
    pytest.importorskip("tokenizers", reason="needs the extra `exact`")
    pytest.importorskip("jinja2", reason="needs the extra `exact`")
    from kvagent.audit.rendered import Exact

    return Exact(_qwen(shared))


@cache
def _qwen(shared: Path) -> Any:
    from kvagent.tokens.model import Model

    folder = Path(os.environ.get("KVLAB") or Path.home() / ".cache" / "kvlab") / "qwen"
    if not (folder / "tokenizer.json").exists():
        pytest.skip(f"needs {folder}: run measure/setup.sh of the shared folder")
    template = shared / "data" / "chat_templates" / "Qwen-Qwen2.5-7B-Instruct.jinja"
    return Model.from_folder(folder, template.read_text())
