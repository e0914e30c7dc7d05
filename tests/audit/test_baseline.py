"""Is a baseline a file that people can commit, and read back as it was?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.baseline import Baseline, Entry, Known
from kvagent.audit.settings import SettingsError
from tests.audit.test_gates import finding, rule, session


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_written(folder: Path) -> None:
    sessions = [
        session(finding(rule("error"), "user", count=2), file="logs/ä.jsonl"),
        session(file=str(folder / "logs/a.jsonl"), prompt=3, cached=1),
    ]
    written = Baseline.of(sessions, "ci/baseline.json").written()
    assert written.decode() == (
        '{\n  "files": {\n    "../logs/a.jsonl": {\n      "findings": {},\n      "hit_rate": 0.3333,\n'
        '      "longest_prompt": 3\n    },\n    "../logs/ä.jsonl": {\n      "findings": {\n'
        '        "KVA999 of-a-test user": {\n          "count": 2,\n          "tokens": 10\n'
        '        }\n      },\n      "hit_rate": 0.9,\n      "longest_prompt": 1000\n    }\n  },\n'
        '  "version": 1\n}\n'
    )


def test_a_name_that_is_no_text(folder: Path) -> None:
    sessions = [session(finding(rule("error"), "half \ud83d"), file="bad\udcff.jsonl")]
    Path("b.json").write_bytes(Baseline.of(sessions, "b.json").written())
    assert Baseline.read("b.json").entry(sessions[0]) is not None


def test_it_does_not_matter_from_where_one_calls(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "baseline.json"
    file.write_bytes(Baseline.of([session(file="logs/a.jsonl")], "baseline.json").written())
    (folder / "logs").mkdir()
    monkeypatch.chdir(folder / "logs")
    base = Baseline.read("../baseline.json")
    assert base.entry(session(file="a.jsonl")) == Entry(0.9, 1000, {})
    assert base.entry(session(file="b.jsonl")) is None


RATES = st.none() | st.floats(0, 1).map(lambda rate: round(rate, 4))
ENTRIES = st.builds(
    Entry,
    RATES,
    st.integers(0, 1 << 40),
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=20),
        st.builds(Known, st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
    ),
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=20), ENTRIES))
def test_it_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, Entry]
) -> None:
    file = tmp_path_factory.mktemp("baseline") / "known.json"
    base = Baseline(file.parent, entries)
    file.write_bytes(base.written())
    assert Baseline.read(str(file)) == base
    backwards = Baseline(file.parent, dict(reversed(entries.items())))
    assert backwards.written() == base.written()


def test_findings_of_one_kind_are_one(folder: Path) -> None:
    found = session(
        finding(rule("error"), "read", count=1, tokens=5),
        finding(rule("error"), "read", count=2, tokens=7),
    )
    assert Entry.of(found).findings == {"KVA999 of-a-test read": Known(3, 12)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the baseline b.json: No such file"),
        (b"{", "the baseline b.json is not JSON"),
        (b"[]", "is no baseline of this version"),
        (b'{"version": 2, "files": {}}', "is no baseline of this version"),
        (b'{"version": 1}', "is damaged"),
        (b'{"version": 1, "files": []}', "is damaged"),
        (b'{"version": 1, "files": {"a": {}}}', "is damaged"),
        (
            b'{"version": 1, "files": {"a": {"hit_rate": "high", "longest_prompt": 1, "findings": {}}}}',
            "is damaged",
        ),
        (
            b'{"version": 1, "files": {"a": {"hit_rate": 1, "longest_prompt": 1, "findings": {"x": 3}}}}',
            "is damaged",
        ),
    ],
)
def test_what_is_no_baseline(folder: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        Path("b.json").write_bytes(content)
    with pytest.raises(SettingsError, match=said):
        Baseline.read("b.json")


def test_it_holds_nothing_of_a_prompt_but_what_findings_say(folder: Path) -> None:
    written = json.loads(Baseline.of([session(finding(rule("error")))], "b.json").written())
    assert set(written["files"]["a.jsonl"]) == {"findings", "hit_rate", "longest_prompt"}
