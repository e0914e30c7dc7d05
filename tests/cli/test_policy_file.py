"""Is a policy read from TOML and JSON, and is a mistake named with its file and field?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvagent import Evict, Fraction, Policy, Tokens, Volatile
from kvagent.cli.failure import Failure
from kvagent.cli.policy_file import read_policy


def policy(folder: Path, name: str, text: str) -> Policy:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_policy(path)


JSON = '{"mode": "safe", "window": 32768, "evict": {"trigger": "tokens(9_000) | fraction(0.5)"}}'
TOML = 'mode = "safe"\nwindow = 32_768\n[evict]\ntrigger = "tokens(9_000) | fraction(0.5)"\n'
SAME = Policy(mode="safe", window=32768, evict=Evict(trigger=Tokens(9000) | Fraction(0.5)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", JSON),
        ("p.JSON", "\ufeff" + JSON),
        ("p.toml", TOML),
        ("p.txt", "\n " + JSON),
        ("p", TOML),
    ],
)
def test_one_policy_in_every_form(tmp_path: Path, name: str, text: str) -> None:
    assert policy(tmp_path, name, text) == SAME


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"evict": null}'),
        ("p.json", '{"evict": false}'),
        ("p.json", '{"evict": "off"}'),
        ("p.toml", "evict = false"),
        ("p.toml", 'evict = "off"'),
    ],
)
def test_a_stage_is_switched_off(tmp_path: Path, name: str, text: str) -> None:
    assert policy(tmp_path, name, text) == Policy(evict=None)


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.toml", ""), ("p.json", "{}"), ("p.toml", "evict = true"), ("p.json", '{"echo": "on"}')],
)
def test_what_is_not_said_is_the_default(tmp_path: Path, name: str, text: str) -> None:
    assert policy(tmp_path, name, text) == Policy()


def test_patterns(tmp_path: Path) -> None:
    read = policy(tmp_path, "p.toml", "[volatile]\npatterns = ['build-\\d+']")
    assert read == Policy(volatile=Volatile(patterns=(r"build-\d+",)))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.json", '{"evikt": null}', ["evikt is no setting", "was evict meant?"]),
        ("p.json", '{"zzz": 1}', ["zzz is no setting", "there are", "window"]),
        ("p.toml", "[evict]\nkep = 1", ["evict.kep is no setting", "was evict.keep meant?"]),
        ("p.toml", "[echo]\nloud = 1", ["echo.loud is no setting", "echo has none"]),
        ("p.toml", "[evict]\nkeep = 5", ["evict.keep should be", "200", "not 5"]),
        ("p.json", '{"evict": 5}', ['evict should be a table of settings, or "off", not 5']),
        ("p.json", '{"volatile": false}', ["volatile should be a table of settings, not False"]),
        ("p.json", '{"mode": "loud"}', ["mode should be", "'observe'", "not 'loud'"]),
        ("p.json", '{"window": 0}', ["window should be", "not 0"]),
        ("p.json", '{"window": "wide"}', ["window should be", "not 'wide'"]),
        ("p.json", '{"evict": {"trigger": "soon"}}', ["evict.trigger", '"soon"', "character 0"]),
        ("p.json", '{"evict": {"trigger": []}}', ["evict.trigger", "a trigger is"]),
        ("p.json", '{"volatile": {"patterns": ["("]}}', ["volatile.patterns", "'('"]),
        ("p.json", '{"mode": "x", "window": 0}', ["mode should be", "; window should be"]),
        ("p.json", '{"mode": "' + "x" * 99 + '"}', ["mode should be", "xxx..."]),
        ("p.json", "{", ["is not JSON", "line 1, character 2"]),
        ("p.json", "[" * 100_000, ["is no JSON that can be read"]),
        ("p.json", "[]", ['is not an object, such as {"evict": null}']),
        ("p.toml", "mode = \n", ["is not TOML", "line 1"]),
        ("p.toml", '{"evict": null}', ["is not TOML"]),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, name: str, text: str, words: list[str]) -> None:
    with pytest.raises(Failure) as caught:
        policy(tmp_path, name, text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    for word in [str(tmp_path / name), *words]:
        assert word in sentence


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in [(tmp_path / "none.toml", "No such file"), (tmp_path, "directory")]:
        with pytest.raises(Failure, match=reason) as caught:
            read_policy(path)
        assert str(path) in str(caught.value)


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_bytes(b"mode = '\xff'")
    with pytest.raises(Failure, match=r"p\.toml is not UTF-8"):
        read_policy(tmp_path / "p.toml")
