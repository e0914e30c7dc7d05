"""Which words are identifiers, and which of them are worth most?"""

from __future__ import annotations

import pytest

from kvagent.shorten.identifiers import identifiers as ranked
from kvagent.shorten.identifiers import weights_of, words_of


def identifiers(text: str) -> list[str]:
    return list(ranked(weights_of(words_of(text))))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/app/main.py:12, please.", "src/app/main.py:12"),
        ("src/a.ts:22:import { x }", "src/a.ts:22"),
        ("import x from '../core/types.js';", "../core/types.js"),
        ("open C:\\Users\\me\\file.txt now", "C:\\Users\\me\\file.txt"),
        ("GET https://example.org/a/b?token=c", "https://example.org/a/b"),
        ("commit 9fceb02d0ae5", "9fceb02d0ae5"),
        ("id=123e4567-e89b-12d3-a456-426614174000;", "123e4567-e89b-12d3-a456-426614174000"),
        ("call this.store.loadSession(id)", "this.store.loadSession"),
        ("std::vector of things", "std::vector"),
        ("MAX_RETRIES was hit", "MAX_RETRIES"),
        ("the camelCase one", "camelCase"),
        ("port 8080 is taken", "8080"),
        ("raise json.JSONDecodeError here", "json.JSONDecodeError"),
        ("tests/test_a.py::test_b[1] ran", "tests/test_a.py::test_b"),
        ("ticket KESTREL-77 open", "KESTREL-77"),
        ("version 1.22.3 of it", "1.22.3"),
        ("ünïcode/pfad/datei.py da", "ünïcode/pfad/datei.py"),
    ],
)
def test_found(text: str, found: str) -> None:
    assert identifiers(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "only words, in prose. And more!",
        "An Error occurred in the MAIN part",
        "at 12:30:05 on 2026-01-02T03:04:05Z",
        "took 0.25 s, 12 of 30",
        "漢字だけの文",
        "QUJD" * 100,
        "!!! --- *** ... ///",
        "",
    ],
)
def test_none_found(text: str) -> None:
    assert identifiers(text) == []


def test_json_within_json() -> None:
    assert identifiers(r'{"out":"src/a/b.py\nsrc/c/d.py"}') == ["src/a/b.py", "src/c/d.py"]


def test_rare_shapes_come_before_common_ones() -> None:
    text = "".join(f"/items/v{i}\n" for i in range(100, 150)) + "/rare/path\n"
    assert identifiers(text)[0] == "/rare/path"


def test_what_there_are_thousands_of_is_not_listed() -> None:
    assert identifiers("".join(f"/items/{i}\n" for i in range(10_000, 30_000))) == []


def test_lone_surrogates_are_no_error() -> None:
    assert identifiers("\ud83d user_name \udc00") == ["user_name"]
