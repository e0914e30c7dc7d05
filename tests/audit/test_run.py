"""Can a program audit as the command does?"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from kvagent.audit.prediction import Target
from kvagent.audit.run import Auditor, audit_file, audit_files
from kvagent.audit.settings import Settings, SettingsError
from kvagent.audit.transcript import NoTranscript
from kvagent.policy import Policy
from tests.audit.test_loose import body


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A log of six requests."""
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(body(turn)) + "\n" for turn in range(1, 7)))
    return path


def test_a_file_and_many(file: Path) -> None:
    session = audit_file(file)
    assert (session.file, session.requests, session.conversations) == (str(file), 6, 1)
    assert session.totals.hit_rate is not None
    assert session.what_if is not None
    report = audit_files([file, file.parent / "none"], Settings(min_hit_rate=0.99))
    assert [each.totals for each in report.sessions] == [session.totals]
    assert [failed.file for failed in report.failed] == [str(file.parent / "none")]
    assert [gate.failed for gate in report.gates] == [True]


PACKED = {
    "a.jsonl.zst": (b"\x28\xb5\x2f\xfd\x04\x58\x19\n\xff\n", "Zstandard"),
    "b.yaml": (b"interactions:\n- request:\n    body: x\n", "PyYAML"),
}


def test_what_another_package_would_read_is_no_stranger_in_a_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a gate would hold because nobody looked."""
    for package in ("zstandard", "compression", "yaml"):
        monkeypatch.setitem(sys.modules, package, None)
    for name, (content, _) in PACKED.items():
        (file.parent / name).write_bytes(content)
    (file.parent / "notes.txt").write_text("to do")
    report = audit_files([file.parent], Settings(what_if=False))
    assert [session.file for session in report.sessions] == [str(file)]
    assert report.passed_over == [str(file.parent / "notes.txt")]
    for failed, (name, (_, reader)) in zip(report.failed, PACKED.items(), strict=True):
        assert failed.file == str(file.parent / name)
        assert reader in failed.why
        assert 'pip install "kvagent[audit]"' in failed.why


@pytest.mark.parametrize("packer", ["gzip", "zstandard"])
def test_half_an_archive_is_no_stranger_in_a_folder(file: Path, packer: str) -> None:
    """Not even where what is missing would have said what it is."""
    compress = pytest.importorskip(packer).compress
    whole = file.read_bytes()
    document = json.dumps(json.loads(whole.splitlines()[-1]), indent=1).encode()
    halves = {
        "document": compress(document)[:-20],
        "first": compress(whole)[:20],
        "log": compress(whole + random.Random(0).randbytes(1 << 19).hex().encode())[: 1 << 18],
    }
    for name, half in halves.items():
        (file.parent / name).write_bytes(half)
    report = audit_files([file.parent], Settings(what_if=False))
    assert report.passed_over == []
    said = {Path(each.file).name: each.why for each in report.failed}
    assert said.keys() == {"document", "first"}
    assert all(" breaks off; " in why for why in said.values()), said
    (session,) = (each for each in report.sessions if each.file.endswith("/log"))
    assert session.requests == 6
    assert "The file breaks off at line 7: what came after is missing." in session.notes


def test_what_is_set_is_used(file: Path) -> None:
    settings = Settings(server="llama.cpp", slots=2, window=4096, what_if=False)
    session = audit_file(file, settings)
    assert session.target == Target("llama.cpp", slots=2, window=4096)
    assert session.what_if is None
    for codes in (("KVA508",), ("KVA507",)):
        session = audit_file(file, Settings(window=100, what_if=False, select=codes))
        found = {finding.rule.code for finding in session.findings}
        assert found == {"KVA508"} & {*codes}


def test_the_policy_of_what_if(file: Path) -> None:
    off = audit_file(file, policy=Policy(evict=None)).what_if
    usual = audit_file(file).what_if
    assert off is not None
    assert usual is not None
    assert off.policy != usual.policy


def test_two_in_a_row_have_nothing_in_common(file: Path) -> None:
    """One transcript's cache is not the next one's."""
    auditor = Auditor(Settings(what_if=False))
    assert auditor.file(file).rows == auditor.file(file).rows


def test_every_byte_is_told(file: Path) -> None:
    told: list[int] = []
    audit_files([file], Settings(what_if=False), advance=told.append)
    assert sum(told) == file.stat().st_size


def test_what_cannot_be_done_is_said(file: Path, tmp_path: Path) -> None:
    with pytest.raises(NoTranscript, match="cannot be read"):
        audit_file(tmp_path / "none")
    with pytest.raises(NoTranscript, match="cannot be read"):
        audit_file(tmp_path)
    for settings in (Settings(format="yaml"), Settings(select=("x",)), Settings(fail_on=("x",))):
        with pytest.raises(SettingsError):
            audit_file(file, settings)


def test_lines_that_cannot_be_read_are_counted(file: Path) -> None:
    with file.open("a") as log:
        log.write("no JSON\n" * 5)
    session = audit_file(file, Settings(what_if=False))
    assert (session.requests, session.unreadable_count) == (6, 5)
    file.write_text('{"role": "user"}\n' * 3)
    with pytest.raises(NoTranscript, match=f"nothing in {file} can be read as .*mooncake"):
        audit_file(file, Settings(format="mooncake"))


def test_a_large_log_is_not_sent_through_kvagent_unasked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvagent.audit.run._LARGE", file.stat().st_size - 1)
    session = audit_file(file)
    assert session.what_if is None
    assert "--what-if does it" in session.notes[-1]
    assert audit_file(file, Settings(what_if=True)).what_if is not None
    assert "--what-if" not in " ".join(audit_file(file, Settings(what_if=False)).notes)


def test_what_is_ignored_is_not_passed_over_in_silence() -> None:
    recorded = Path(__file__).parents[2] / "examples/transcripts/demo.jsonl"
    everything = audit_file(recorded)
    session = audit_file(recorded, Settings(ignore=("KVA1",)))
    gone = len(everything.findings) - len(session.findings)
    assert gone > 1
    assert session.notes[0] == f"{gone} findings are left out by what was selected or ignored."
    assert everything.notes[0] != session.notes[0]
