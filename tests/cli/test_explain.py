"""Does `kvagent explain` tell what a rule is, however it is called?"""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from kvagent.audit.rule import Rule
from kvagent.audit.rules import RULES
from kvagent.cli import main


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["explain", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_told_whole(rule: Rule) -> None:
    told = run(rule.code)
    assert told.exit_code == 0
    for text in (
        f"{rule.code} {rule.name} ({rule.severity})",
        rule.summary,
        rule.why,
        rule.fix,
    ):
        assert words(text) in words(told.stdout)
    for line in rule.example.splitlines():
        assert words(line) in words(told.stdout)  # no word is broken
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_by_name_in_lower_case_and_several() -> None:
    one, other = RULES[0], RULES[-1]
    assert run(one.code.lower()).stdout == run(one.name).stdout == run(one.code).stdout
    both = run(other.code, one.name, other.name).stdout
    assert both == run(other.code).stdout + "\n" + run(one.code).stdout


def test_a_family() -> None:
    told = json.loads(run("KVA1", "--output-format", "json").stdout)
    assert [rule["code"] for rule in told] == [r.code for r in RULES if r.code.startswith("KVA1")]


def test_all_of_them() -> None:
    table = words(run().stdout)
    told = json.loads(run("--output-format", "json").stdout)
    for rule, as_json in zip(RULES, told, strict=True):
        assert words(f"{rule.code} {rule.severity} {rule.name}: {rule.summary}") in table
        assert as_json["name"] == rule.name
        assert as_json["example"] == rule.example
    assert max(map(len, run().stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("word", "hint"),
    [("clock-in-haed", "was clock-in-head"), ("KVA10l", "KVA101"), ("ruff", "kvagent explain")],
)
def test_an_unknown_one_is_named_with_the_nearest(word: str, hint: str) -> None:
    result = run("KVA101", word)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"kvagent explain: {word} is no rule, ")
    assert hint in result.stderr


def test_codes_and_names_are_each_given_once() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
