"""Does a code host take the log, show each finding where it is, and know it again?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings

from kvagent.audit.report.sarif import write
from kvagent.audit.rules import RULES
from kvagent.audit.session import Report, Session
from kvagent.audit.transcript import Place
from tests.audit.report.reports import (
    CLOCK,
    REPORTS,
    everything,
    finding,
    session,
    spot,
)

# What SARIF 2.1.0 says of the objects that are written: all keys that one may have here, and those
# that it must have.
KEYS: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"$schema", "version", "runs"}, {"version", "runs"}),
    "run": ({"tool", "invocations", "results"}, {"tool"}),
    "driver": ({"name", "rules"}, {"name"}),
    "rule": (
        {"id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"},
        {"id"},
    ),
    "result": (
        {"ruleId", "ruleIndex", "level", "message", "locations", "relatedLocations"}
        | {"partialFingerprints", "occurrenceCount", "properties"},
        {"message"},
    ),
    "location": ({"id", "physicalLocation", "logicalLocations", "message"}, set()),
    "invocation": ({"executionSuccessful", "toolExecutionNotifications"}, {"executionSuccessful"}),
    "notification": ({"level", "message", "locations"}, {"message"}),
}
LEVELS = {"none", "note", "warning", "error"}


def logged(report: Report) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(write(report), parse_constant=pytest.fail)
    return value


def run(report: Report) -> dict[str, Any]:
    (one,) = logged(report)["runs"]
    return dict(one)


def assert_keys(value: dict[str, Any], name: str) -> None:
    allowed, needed = KEYS[name]
    assert needed <= value.keys() <= allowed


def messages(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("message", "shortDescription", "fullDescription", "help"):
                yield inner
            yield from messages(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from messages(inner)


def assert_valid(log: dict[str, Any]) -> None:
    """The constraints of SARIF 2.1.0 on all that is written."""
    assert_keys(log, "log")
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    assert_keys(one, "run")
    driver = one["tool"]["driver"]
    assert one["tool"].keys() == {"driver"}
    assert_keys(driver, "driver")
    rules = driver["rules"]
    assert len({json.dumps(rule) for rule in rules}) == len(rules)
    for rule in rules:
        assert_keys(rule, "rule")
        assert rule["defaultConfiguration"]["level"] in LEVELS
    for each in one["invocations"]:
        assert_keys(each, "invocation")
        for told in each["toolExecutionNotifications"]:
            assert_keys(told, "notification")
            assert told["level"] in LEVELS
            for location in told.get("locations", ()):
                assert_location(location)
    for result in one["results"]:
        assert_keys(result, "result")
        assert result["level"] in LEVELS
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["occurrenceCount"] >= 1
        assert all(isinstance(each, str) for each in result["partialFingerprints"].values())
        locations = [*result["locations"], *result.get("relatedLocations", ())]
        for location in locations:
            assert_location(location)
        texts = [json.dumps(each) for each in result.get("relatedLocations", ())]
        assert len(set(texts)) == len(texts)
    for message in messages(log):
        assert message.keys() <= {"text", "markdown"}
        assert isinstance(message["text"], str)


def assert_location(location: dict[str, Any]) -> None:
    assert_keys(location, "location")
    physical = location["physicalLocation"]
    assert physical.keys() == {"artifactLocation", "region"}
    assert physical["region"]["startLine"] >= 1
    uri = physical["artifactLocation"]["uri"]
    assert re.fullmatch(r"[\w.~/%:-]*", uri, re.ASCII)
    assert urlsplit(uri).scheme in ("", "file")
    assert location.get("id", 0) >= 0


def test_a_report_with_everything_is_valid() -> None:
    assert_valid(logged(everything()))


@given(report=REPORTS)
@settings(max_examples=60, deadline=None)
def test_any_report_is_valid(report: Report) -> None:
    assert_valid(logged(report))


def test_each_recorded_session_gives_a_valid_log(recorded: list[Session]) -> None:
    assert_valid(logged(Report(recorded)))


def test_every_rule_has_help() -> None:
    findings = [finding(rule) for rule in RULES]
    rules = run(Report([session(findings=findings)]))["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
    for told, rule in zip(rules, RULES, strict=True):
        assert told["shortDescription"]["text"] == rule.summary
        assert rule.why in told["help"]["text"]
        assert rule.fix in told["help"]["markdown"]
        assert told["defaultConfiguration"]["level"] == rule.severity
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", told["name"])


def test_a_finding_with_its_places() -> None:
    made = finding(CLOCK, spot(2), spot(3, contrast=None), spot(4, contrast=None))
    (result,) = run(Report([session(findings=[made])]))["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "logs/monday%20run.jsonl"},
        "region": {"startLine": 2},
    }
    assert [each["physicalLocation"]["region"] for each in result["relatedLocations"]] == [
        {"startLine": 3},
        {"startLine": 4},
    ]
    assert "Before: It is 12:30:01 now.\nAfter: It is 12:30:09 now.\n" in result["message"]["text"]
    assert result["message"]["text"].endswith(f"Fix: {made.fix}")
    assert result["properties"]["tokens"] == 252


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b.json", "a%20b.json"),
        ("./a/../b.json", "a/../b.json"),
        ("a:b#c?d.json", "a%3Ab%23c%3Fd.json"),
        ("ä/ö.json", "%C3%A4/%C3%B6.json"),
        ("/tmp/a b.json", "file:///tmp/a%20b.json"),
        ("caf\udce9.json", "caf%E9.json"),
        ("-", "-"),
    ],
)
def test_a_file_is_an_escaped_uri(file: str, uri: str) -> None:
    made = finding(CLOCK, spot(place=Place(file, 3)))
    (result,) = run(Report([session(file, findings=[made])]))["results"]
    found = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert found == uri
    assert unquote(found, errors="surrogateescape").endswith(file.removeprefix("./"))


def marks(*findings: Any, file: str = "a.json") -> list[str]:
    results = run(Report([session(file, findings=findings)]))["results"]
    return [each["partialFingerprints"]["primaryLocationLineHash"] for each in results]


def test_a_finding_is_known_again() -> None:
    before = finding(CLOCK, spot(2), about="time")
    moved = finding(CLOCK, spot(5, character=99, tokens=7, contrast=None), about="time", said="!")
    assert marks(before) == marks(moved)
    assert marks(before) != marks(replace(before, about="date"))
    assert marks(before) != marks(before, file="b.json")
    assert len(set(marks(before, before))) == 2


def test_a_document_has_its_first_line() -> None:
    made = finding(CLOCK, spot(place=Place("a.json", None, ".messages")))
    (result,) = run(Report([session("a.json", findings=[made])]))["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_what_could_not_be_read_is_told() -> None:
    (invocation,) = run(everything())["invocations"]
    assert invocation["executionSuccessful"] is False
    told = [each["message"]["text"] for each in invocation["toolExecutionNotifications"]]
    assert told[0] == "notes.txt is no transcript: it looks like text."
    assert told[1] == "logs/monday run.jsonl:9 is not JSON: unexpected end"
    assert told[2].startswith("min-hit-rate: The hit rate")
