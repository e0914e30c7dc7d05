"""Are settings read as they were meant, and refused where they may mean two things?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.settings import Settings, SettingsError, rate, settings_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, a few folders below a project."""
    below = tmp_path / "project" / "agent" / "logs"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return tmp_path / "project"


def project(folder: Path, table: str, name: str = "pyproject.toml") -> Path:
    file = folder / name
    file.write_text(table, encoding="utf-8")
    return file


# -- a hit rate


@pytest.mark.parametrize(
    ("said", "share"),
    [("90%", 0.9), ("0.9", 0.9), (0.9, 0.9), ("100 %", 1.0), ("1%", 0.01), (0, 0.0), ("0%", 0.0)],
)
def test_a_share(said: object, share: float) -> None:
    assert Settings().merged(min_hit_rate=said).min_hit_rate == pytest.approx(share)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("90", "write 90% or 0.9"),
        (95.5, "write 95.5% or 0.955"),
        ("1", "write 1% or 100%"),
        (1.0, "write 1% or 100%"),
        ("101%", "0% to 100%"),
        ("-1", "0% to 100%"),
        ("nan", "0% to 100%"),
        ("inf%", "0% to 100%"),
        ("high", "90% or 0.9"),
        ("", "90% or 0.9"),
    ],
)
def test_what_is_no_share_or_could_be_two(said: object, hint: str) -> None:
    with pytest.raises(SettingsError, match=f"^--min-hit-rate .*{hint}"):
        Settings().merged(min_hit_rate=said)


@given(st.one_of(st.text(max_size=8), st.floats(), st.integers()))
def test_whatever_is_said_is_a_share_or_refused(said: object) -> None:
    try:
        share = rate(said)
    except ValueError:
        return
    assert isinstance(share, float)
    assert 0 <= share <= 1
    assert not math.isnan(share)


# -- options


def test_the_command_line_goes_before_the_file(folder: Path) -> None:
    project(folder, "[tool.kvagent.audit]\nslots = 2\nserver = 'llama.cpp'\nwindow = 4096\n")
    settings = settings_of().merged(slots=4, window=None)
    assert (settings.slots, settings.server, settings.window) == (4, "llama.cpp", 4096)


def test_words_with_commas_or_many_times() -> None:
    settings = Settings().merged(select=["KVA1, clock-in-head", "KVA204"], fail_on=("error,",))
    assert settings.select == ("KVA1", "clock-in-head", "KVA204")
    assert settings.fail_on == ("error",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"server": "ollama"}, "--server should be 'vllm' or 'llama.cpp', not 'ollama'"),
        ({"slots": 0}, "--slots should be greater than 0, not 0"),
        ({"output_format": "pdf"}, "--output-format should be 'terminal', 'json'"),
        ({"select": 5}, "--select should be"),
    ],
)
def test_an_option_that_does_not_hold(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings().merged(**given)
    assert str(refused.value).startswith(said)


# -- pyproject.toml


def test_the_nearest_table_is_taken(folder: Path) -> None:
    project(folder, "[tool.kvagent.audit]\nfail-on = ['error']\nignore = 'KVA5'\n")
    project(folder / "agent", "[project]\nname = 'agent'\n")
    settings = settings_of()
    assert (settings.fail_on, settings.ignore) == (("error",), ("KVA5",))
    project(folder / "agent", "[tool.kvagent.audit]\nfail-on = 'warning'\n")
    assert settings_of().fail_on == ("warning",)
    assert settings_of().ignore == ()


def test_no_file_and_no_table(folder: Path) -> None:
    assert settings_of(start=folder) == Settings()
    project(folder, "[tool.kvagent]\n[tool.ruff]\naudit = 3\n")
    assert settings_of(start=folder) == Settings()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[tool.kvagent]\naudit = 3\n", "tool.kvagent.audit should be a table, not 3"),
        ("[[tool.kvagent.audit]]\nslots = 2\n", "tool.kvagent.audit should be a table, not ["),
        ("[tool]\nkvagent = 'x'\n", "tool.kvagent should be a table, not 'x'"),
        ("tool = true\n", "tool should be a table, not True"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_what_should_be_a_table(folder: Path, content: str, said: str, is_named: bool) -> None:
    file = project(folder, content)
    with pytest.raises(SettingsError) as refused:
        settings_of(file) if is_named else settings_of(start=folder)
    assert str(refused.value).startswith(f"{file}: {said}")


def test_a_file_of_its_own(folder: Path) -> None:
    file = project(folder, "redact = true\nfrom = 'pi'\n", "audit.toml")
    settings = settings_of(file)
    assert (settings.redact, settings.format) == (True, "pi")
    file = project(folder, "[tool.ruff]\n", "other.toml")
    with pytest.raises(SettingsError, match=r"has no table \[tool.kvagent.audit\]"):
        settings_of(file)


def test_paths_in_a_file_are_from_its_folder(folder: Path) -> None:
    (folder / "model").mkdir()
    project(
        folder,
        "[tool.kvagent.audit]\nbaseline = 'known.json'\ntokenizer = 'model'\nkv-model = 'qwen2.5-7b'\n",
    )
    settings = settings_of()
    assert settings.baseline is not None
    assert settings.tokenizer is not None
    assert Path(settings.baseline).resolve() == folder.resolve() / "known.json"
    assert Path(settings.tokenizer).resolve() == folder.resolve() / "model"
    assert settings.kv_model == "qwen2.5-7b"
    project(folder, "[tool.kvagent.audit]\ntokenizer = 'http://localhost:8000/v1'\n")
    assert settings_of().tokenizer == "http://localhost:8000/v1"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("fail_on = ['error']", "fail_on is no setting, was fail-on meant?"),
        ("min-hitrate = 0.9", "min-hitrate is no setting, was min-hit-rate meant?"),
        ("zzz = 1", "zzz is no setting, there are baseline, block-size"),
        ("min-hit-rate = 90", "min-hit-rate is no fraction: write 90% or 0.9, not 90"),
        ("slots = 'two'", "slots should be a valid integer"),
        ("details = 'perhaps'", "details should be a valid boolean"),
    ],
)
def test_a_setting_that_does_not_hold_is_named_with_its_file(
    folder: Path, table: str, said: str
) -> None:
    file = project(folder, f"[tool.kvagent.audit]\n{table}\n")
    with pytest.raises(SettingsError) as refused:
        settings_of()
    assert str(refused.value).startswith(f"{file}: {said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"[tool", "is not TOML"), (b"\xff\xfe\x00", "is not UTF-8"), (None, "cannot read")],
)
def test_a_file_that_cannot_be_read(folder: Path, content: bytes | None, said: str) -> None:
    file = folder / "settings.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=said):
        settings_of(file)
