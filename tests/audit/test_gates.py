"""Does a gate fail exactly where its condition does not hold, and with a baseline only for what is new?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.baseline import Baseline
from kvagent.audit.gates import gates_of
from kvagent.audit.prediction import Target
from kvagent.audit.rule import Finding, Rule, Severity, Spot
from kvagent.audit.rules import RULES
from kvagent.audit.session import Gate, Session
from kvagent.audit.settings import Settings, SettingsError
from kvagent.audit.transcript import Place
from kvagent.audit.turns import Totals

ERROR = next(rule for rule in RULES if rule.severity == "error")


def rule(severity: Severity, code: str = "KVA999") -> Rule:
    return Rule(code, "of-a-test", severity, "prefill", "s", "w", "f")


def finding(rule: Rule, about: str = "", *, count: int = 1, tokens: int = 10) -> Finding:
    spot = Spot(Place("a.jsonl", 1), 0, 1)
    said = f"It was seen {count} times."
    return Finding(rule, said, rule.fix, "", [spot], count, tokens, None, about)


def session(
    *findings: Finding, file: str = "a.jsonl", prompt: int = 1000, cached: int = 900
) -> Session:
    sums = Totals(2, prompt, cached, longest=prompt)
    made = Session(file, "openai_chat", "", "estimate", exact=False, target=Target(), totals=sums)
    made.findings = findings
    return made


def gates(*sessions: Session, baseline: Baseline | None = None, **settings: object) -> list[Gate]:
    return gates_of(sessions, Settings().merged(**settings), baseline)


def failed(*sessions: Session, baseline: Baseline | None = None, **settings: object) -> list[str]:
    return [gate.name for gate in gates(*sessions, baseline=baseline, **settings) if gate.failed]


# -- findings


@pytest.mark.parametrize(
    ("severity", "words"),
    [
        ("error", ["error", "warning", "note"]),
        ("warning", ["warning", "note"]),
        ("note", ["note"]),
    ],
)
def test_a_severity_takes_what_is_worse_along(severity: Severity, words: list[str]) -> None:
    found = session(finding(rule(severity)))
    for word in ("error", "warning", "note"):
        assert bool(failed(found, fail_on=word)) == (word in words)


def test_rules_by_code_beginning_and_name() -> None:
    found = session(finding(ERROR))
    for word in (ERROR.code, ERROR.code[:4], ERROR.name, ERROR.code.lower()):
        assert failed(found, fail_on=word) == [f"fail-on {word}"]
        assert failed(session(), fail_on=word) == []
    (gate,) = gates(found, found, fail_on=ERROR.code)
    assert gate.said == f"2 findings: {ERROR.code} {ERROR.name} (2)."


def test_a_word_that_is_no_rule() -> None:
    with pytest.raises(SettingsError, match=r"errors is no severity, was error meant\?"):
        gates(session(), fail_on="errors")
    with pytest.raises(SettingsError, match=r"--fail-on KVX is no rule.*or error, warning, note"):
        gates(session(), fail_on="KVX")


def test_each_word_is_a_gate() -> None:
    told = gates(session(finding(rule("note"))), fail_on=["error", "note"])
    assert [(gate.name, gate.failed) for gate in told] == [
        ("fail-on error", False),
        ("fail-on note", True),
    ]


# -- hit rate and length


def test_the_hit_rate_is_that_of_all_files() -> None:
    short, long = (
        session(file="short.json", prompt=100, cached=0),
        session(prompt=9900, cached=9600),
    )
    assert failed(short, long, min_hit_rate="96%") == []
    (gate,) = gates(short, long, min_hit_rate="96.01%")
    assert gate.failed
    assert gate.name == "min-hit-rate 96.01%"
    assert gate.said == (
        "The hit rate is ≈96.00%, ≈9,600 of ≈10,000 prompt tokens; the lowest is ≈0.00% in "
        "short.json; 96.01% was asked for."
    )
    short.exact = long.exact = True
    (gate,) = gates(short, long, min_hit_rate="96.01%")
    assert gate.said.startswith("The hit rate is 96.00%, 9,600 of 10,000 prompt tokens; ")


def test_a_hit_rate_that_nobody_knows_is_not_held() -> None:
    assert failed(session(prompt=0, cached=0), min_hit_rate="0%") == ["min-hit-rate 0%"]


def test_the_longest_prompt() -> None:
    one, other = session(prompt=100), session(file="b.jsonl", prompt=200)
    assert failed(one, other, max_prompt_tokens=200) == []
    (gate,) = gates(one, other, max_prompt_tokens=199)
    assert gate.said == "The longest prompt has ≈200 tokens, in b.jsonl; 199 may be sent."
    (gate,) = gates(one, max_prompt_tokens=99)
    assert gate.said == "The longest prompt has ≈100 tokens; 99 may be sent."


# -- with a baseline


def known(*sessions: Session) -> Baseline:
    return Baseline.of(sessions, str(Path.cwd() / "baseline.json"))


def test_what_is_known_does_not_fail() -> None:
    now = session(finding(rule("error"), count=3, tokens=100), cached=500)
    base = known(now)
    settings: dict[str, Any] = {"fail_on": "error", "min_hit_rate": "90%", "max_prompt_tokens": 10}
    assert len(failed(now, **settings)) == 3
    told = gates(now, baseline=base, **settings)
    assert [gate.name for gate in told if gate.failed] == []
    assert told[-1] == Gate("baseline", failed=False, said="Nothing got worse.")


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        (finding(rule("error"), count=3, tokens=100), False),
        (finding(rule("error"), count=2, tokens=100), False),
        (finding(rule("error"), count=3, tokens=110), False),
        (finding(rule("error"), count=3, tokens=111), True),
        (finding(rule("error"), count=4, tokens=100), True),
        (finding(rule("error"), "other_tool"), True),
        (finding(rule("error", "KVA998")), True),
    ],
)
def test_a_finding_that_is_new_or_worse_fails(now: Finding, is_worse: bool) -> None:
    base = known(session(finding(rule("error"), count=3, tokens=100)))
    assert failed(session(now), baseline=base) == ["baseline"] * is_worse
    assert failed(session(now), baseline=base, fail_on="error") == ["fail-on error"] * is_worse
    # A note is what fail_on asks for, so others do not count.
    assert failed(session(now), baseline=base, fail_on=ERROR.code) == []


def test_a_gate_knows_the_findings_that_it_failed_for() -> None:
    old, new = finding(rule("error")), finding(rule("error"), "new")
    note = finding(rule("note", "KVA998"))
    now = session(old, new, note)
    for told, found in (
        (gates(now, fail_on="error"), [(old, new)]),
        (gates(now, fail_on="error", baseline=known(session(old, note))), [(new,), ()]),
        (gates(now, baseline=known(session(old))), [(new, note)]),
        (gates(now, baseline=known(now)), [()]),
        (gates(now, min_hit_rate="99%"), [()]),
    ):
        assert [gate.findings for gate in told] == found


def test_a_lower_hit_rate_fails() -> None:
    base = known(session(cached=900))
    assert failed(session(cached=890), baseline=base) == []
    (gate,) = gates(session(cached=889), baseline=base)
    said = "The hit rate is ≈88.90%, it was 90.00%."
    assert gate == Gate("baseline", failed=True, said=said, file="a.jsonl")
    assert failed(session(prompt=0, cached=0), baseline=base) == ["baseline"]


def test_a_longer_prompt_fails_only_beyond_the_limit() -> None:
    base = known(session(prompt=100, cached=0))
    longer = session(prompt=101, cached=0)
    assert failed(longer, baseline=base) == []
    assert failed(longer, baseline=base, max_prompt_tokens=101) == []
    assert failed(longer, baseline=base, max_prompt_tokens=50) == ["max-prompt-tokens 50"]


def test_a_transcript_that_is_not_in_the_baseline_is_new() -> None:
    base = known(session())
    new = session(finding(rule("note")), file="new.jsonl", cached=0)
    assert failed(session(), new, baseline=base) == ["baseline"]
    assert failed(session(), new, baseline=base, min_hit_rate="50%") == [
        "min-hit-rate 50%",
        "baseline",
    ]
    assert failed(session(), baseline=base) == []


def test_what_a_baseline_knows_and_nobody_looked_at_is_said() -> None:
    known = Baseline.of([session(file="a.jsonl"), session(file="b.jsonl")], "baseline.json")
    (gate,) = gates(session(file="b.jsonl"), baseline=known)
    assert not gate.failed
    assert gate.said == "Nothing got worse. 1 transcript that it knows was not looked at."
