"""Which lines report that something went wrong?"""

from __future__ import annotations

import pytest

from kvagent.shorten.alarms import alarms


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: disk full",
        "an error occurred",
        "Build failed.",
        "3 failed, 10 passed",
        "10 errors",
        "level=warn msg=slow",
        "[WARNING] deprecated",
        "KeyError: 'a'",
        "requests.exceptions.ConnectionError",
        "exit status 1",
        "exited with code 0",
    ],
)
def test_reports(line: str) -> None:
    assert list(alarms(["first", line, "last"])) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "} catch (error) {",
        "console.error(text)",
        "import { formatErrorForLog } from './errors.js'",
        "0 errors, 0 failed",
        "no warnings",
        "failover to the terrorist-proof warning_level",
        "throw new Error(`x`)",
        "-> exit",
    ],
)
def test_no_reports(line: str) -> None:
    assert list(alarms([line])) == []


def test_first_and_last_come_first_then_new_wordings() -> None:
    lines = ["warning: a", "error 1", "error 2", "other error", "warning: b", "error 3", "fine"]
    assert list(alarms(lines)) == [1, 5, 0, 4, 3, 2]


def test_errors_with_codes_of_their_own_are_never_taken_for_one() -> None:
    lines = ["error E0308 at 1:2", "error E0425 at 1:3", "error E0308 at 9:9", "error TS2304 at 1"]
    assert list(alarms(lines)) == [0, 3, 1, 2]


def test_positions_hold_beside_letters_that_grow_in_lower_case() -> None:
    assert list(alarms(["İİİİ", "İ error İ", "漢字", "fatal"])) == [1, 3]
