"""What is found in real sessions? Each of these findings was read, and is so."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kvagent.audit.analyse import audit
from kvagent.audit.formats import recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.rules import checks
from kvagent.audit.session import Session
from kvagent.audit.source import opened
from kvagent.audit.turns import Analysis

OURS = ("KVA3", "KVA4", "KVA5", "KVA6")

FOUND: dict[str, set[str]] = {
    # Large files were read; the reports say 0 cached again and again within seconds.
    "claudecode_196820da.jsonl": {"KVA407", "KVA501"},
    "claudecode_3fe1b6bc.jsonl": {"KVA407", "KVA501"},
    "claudecode_9eda1058.jsonl": {"KVA407", "KVA501"},
    # One pause of 330 seconds; a result that quotes signatures of another session.
    "codex_rollout_019e1625.jsonl": {"KVA405", "KVA407", "KVA501", "KVA504"},
    # The same page after a click that changed nothing.
    "inspect_browser.json": {"KVA502"},
    # Its 82 reports say 0, and a file was looked at twice.
    "openhands_events_multiswe.jsonl": {"KVA406", "KVA501", "KVA502"},
    # A call that a compaction cut off its result, and an error 400 for another such.
    "pi_before-compaction.jsonl": {"KVA405", "KVA407", "KVA501", "KVA601", "KVA604"},
    # The same flights were looked up twice in two conversations.
    "tau_airline_12.json": {"KVA502"},
}
"""What there is in files that have something; in all others there is nothing."""


@cache
def audited(path: Path) -> Session:
    with opened(str(path)) as file:
        contents = Contents.of(file)
        known = recognise(contents)
        return audit(known.read(contents), path.name, known, Analysis(), checks())


def files(shared: Path) -> list[Path]:
    data = shared / "data"
    some = [*data.glob("*.*"), *data.glob("weka/*"), *data.glob("openhands_litellm_sonnet4/*")]
    return sorted(path for path in some if path.is_file() and path.suffix != ".md")


def test_recorded_sessions(shared: Path) -> None:
    found: dict[str, set[str]] = {}
    for path in files(shared):
        for each in audited(path).findings:
            if each.rule.code.startswith(OURS):
                found.setdefault(path.name, set()).add(each.rule.code)
    assert found == FOUND


@pytest.mark.parametrize(
    "name", ["requests.jsonl", "requests_clean.jsonl", "requests_keyorder.jsonl"]
)
def test_the_demo(shared: Path, name: str) -> None:
    """One long log of a build, which is worth a note."""
    found = audited(shared / "cases" / name).findings
    ours = [each for each in found if each.rule.code.startswith(OURS)]
    assert [(each.rule.code, each.rule.severity) for each in ours] == [("KVA501", "note")]
    (spot,) = ours[0].spots
    assert (spot.place.line, spot.turn, spot.message) == (2, 2, 3)


def test_no_error_is_told_that_none_is(shared: Path) -> None:
    """Only what failed, or was truly lost, is an error; here it is one refusal of one session."""
    errors = [
        (path.name, each.rule.code)
        for path in files(shared)
        for each in audited(path).findings
        if each.rule.severity == "error" and each.rule.code.startswith(OURS)
    ]
    assert errors == [("pi_before-compaction.jsonl", "KVA604")]
