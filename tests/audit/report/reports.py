"""What may a report hold? One that has everything, and random ones."""

from __future__ import annotations

import string
from array import array
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import get_args

from hypothesis import strategies as st

from kvagent.audit.conversations import Kind
from kvagent.audit.difference import Where, Why
from kvagent.audit.prediction import Target
from kvagent.audit.reported import Gap, Reason
from kvagent.audit.rule import Contrast, Finding, Rule, Severity, Spot
from kvagent.audit.session import (
    Break,
    Failed,
    Gate,
    Report,
    Result,
    Row,
    Session,
    Timeline,
    WhatIf,
)
from kvagent.audit.transcript import Hashed, Place, Reported, Unreadable
from kvagent.audit.turns import Parts, Totals, Traced
from kvagent.prefixcache.hit import Loss
from kvagent.prefixcache.seen import common_prefix

CLOCK = Rule(
    "KVA101",
    "clock-in-head",
    "error",
    "prefill",
    "The system prompt tells the time.",
    "Everything behind the first changed character is prefilled again.",
    "Say the time in the newest message.",
    'messages.append({"role": "user", "content": f"Now: {now}"})',
)
DEAD_TOOL = Rule(
    "KVA505", "dead-tool", "note", "context", "A tool is never called.", "It fills the prompt.", "-"
)


def place(line: int | None = 2, path: str = ".request.messages") -> Place:
    return Place("logs/monday run.jsonl", line, path)


def row(number: int = 1, **more: object) -> Row:
    """A request, without anything unusual unless it is given."""
    values: dict[str, object] = {
        "place": place(number),
        "conversation": 0,
        "branch": 0,
        "number": number,
        "kind": "first" if number == 1 else "grown",
        "messages": 2 * number,
        "prompt_tokens": 100 * number,
        "exact": True,
        "fault": "",
        "parts": Parts(60, 10, 10 * number, 90 * number - 70),
        "growth": None if number == 1 else 100,
        "reusable_tokens": 100 * (number - 1),
        "predicted_tokens": 96 * (number - 1),
        "loss": "" if number == 1 else "block",
        "wasted_tokens": 0,
        "kv_bytes": None,
        "reported": Reported(),
        "gap": None,
        "error": None,
        "time_s": None,
    }
    return Row(**{**values, **more})  # type: ignore[arg-type]


def spot(turn: int = 2, **more: object) -> Spot:
    values: dict[str, object] = {
        "place": place(turn),
        "conversation": 0,
        "turn": turn,
        "message": 0,
        "field": "content",
        "character": 31,
        "tokens": 84,
        "contrast": Contrast("It is 12:30:01 now.\nBe", "It is 12:30:09 now.\nBe", 13),
    }
    return Spot(**{**values, **more})  # type: ignore[arg-type]


def finding(rule: Rule = CLOCK, *spots: Spot, **more: object) -> Finding:
    spots = spots or (spot(),)
    values: dict[str, object] = {
        "rule": rule,
        "said": "The system prompt tells the time, which is another in every request.",
        "fix": rule.fix,
        "example": rule.example,
        "spots": spots,
        "count": len(spots),
        "tokens": sum(each.tokens for each in spots) if rule.cost else 0,
        "kv_bytes": None,
    }
    return Finding(**{**values, **more})  # type: ignore[arg-type]


def session(file: str = "logs/monday run.jsonl", **more: object) -> Session:
    """Two requests and nothing wrong, unless it is given."""
    rows = [row(1), row(2)]
    sums = Totals(2, 300, 96, 0, 200)
    made = Session(
        file,
        "openai_chat",
        "OpenAI chat",
        "estimate: cl100k",
        exact=False,
        target=Target(),
        rows=rows,
        totals=sums,
    )
    made.conversations = 1
    for name, value in more.items():
        setattr(made, name, value)
    return made


def everything() -> Report:
    """A report in which no field is left out."""
    sums = Totals(3, 600, 288, 84, 300, 2, 300, 96, Counter({"system_changed": 1}), exact=False)
    broken = row(
        3,
        kind="changed",
        fault="the template raises: roles must alternate",
        wasted_tokens=84,
        kv_bytes=1 << 20,
        reported=Reported(300, 0, 20, 10),
        gap=Gap(0, 192, "lost"),
        error="This model's maximum context length is 4096 tokens.",
        time_s=1_760_000_000.5,
        breaks=(Break("message", 0, "system_changed"),),
    )
    full = session(
        rows=[row(1), row(2), broken],
        unreadable=[Unreadable(place(9, ""), "is not JSON: unexpected end")],
        unreadable_count=1,
        totals=sums,
        findings=[
            finding(CLOCK, spot(2), spot(3, contrast=None), kv_bytes=1 << 19),
            finding(
                DEAD_TOOL,
                Spot(place(1), 0, 1, tool=3, tokens=40, excerpt='{"type": "function"'),
                said="The tool `fetch` is never called.",
            ),
        ],
        results=[Result(place(2), 0, 2, 3, "read", 70, 280), Result(place(3), 0, 3, 5, "", 9, 30)],
        timelines={
            0: Timeline(["system", "user"], array("I", [60, 40]), array("I", [3, 1])),
        },
        notes=["The transcript does not have the tools: their tokens are left out."],
        what_if=WhatIf(
            "the default policy",
            sums,
            Totals(3, 500, 400, 0, 200),
            2,
            212,
            1 << 20,
            1 << 19,
            "Compaction is left out.",
            1,
            0,
            (("pin_head", 2), ("evict", 1)),
        ),
    )
    trace = session("trace.jsonl", rows=[], totals=Totals(1, 1_000, 512, 0, 1_000))
    trace.traced = [Traced(Hashed(place(1), (1, 2), 512, 1_000, 7, "a", 1.5), 1_000, 512, "block")]
    return Report(
        [full, trace],
        [Failed("notes.txt", "notes.txt is no transcript: it looks like text.")],
        [
            Gate("min-hit-rate", failed=True, said="The hit rate is 48.0 %, below 90 %."),
            Gate("fail-on error", failed=False, said="No error was found.", file="trace.jsonl"),
        ],
    )


_COUNTS = st.integers(0, 1 << 40)
_TEXT = st.text(
    st.one_of(
        st.sampled_from(string.printable + "`~|<>&%,:;\x1b\u2028\x85"),
        st.characters(codec="utf-8"),
    ),
    max_size=60,
)
_CAUSES = get_args(get_args(Why)[0])
_MAYBE = st.none() | _COUNTS
_PLACES = st.builds(Place, st.sampled_from(["a.jsonl", "dir/b c.json", "-"]), _MAYBE, _TEXT)


@st.composite
def _totals(draw: st.DrawFn) -> Totals:
    made = Totals()
    for name in sorted(names(Totals) - {"breaks", "exact"}):
        setattr(made, name, draw(_COUNTS))
    made.predicted_tokens = min(made.predicted_tokens, made.prompt_tokens)
    made.breaks.update(draw(st.dictionaries(st.sampled_from(_CAUSES), st.integers(1, 99))))
    return made


@st.composite
def _contrasts(draw: st.DrawFn) -> Contrast:
    common, before, after = draw(_TEXT), draw(_TEXT), draw(_TEXT)
    return Contrast(common + before, common + after, common_prefix(common + before, common + after))


_SPOTS = st.builds(
    Spot,
    _PLACES,
    st.integers(0, 9),
    st.integers(1, 99),
    _MAYBE,
    _MAYBE,
    _TEXT,
    _MAYBE,
    _COUNTS,
    st.none() | _contrasts(),
    _TEXT,
)
_RULES = st.builds(
    Rule,
    st.sampled_from(["KVA101", "KVA102", "KVA501"]),
    st.just("a-name"),
    st.sampled_from(get_args(Severity)),
    st.sampled_from(["prefill", "context", ""]),
    *[_TEXT] * 4,
)
_FINDINGS = st.builds(
    Finding,
    _RULES,
    *[_TEXT] * 3,
    st.lists(_SPOTS, min_size=1, max_size=4),
    st.integers(1, 99),
    _COUNTS,
    _MAYBE,
)
_ROWS = st.builds(
    Row,
    _PLACES,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 99),
    st.sampled_from(get_args(Kind)),
    st.integers(0, 99),
    _COUNTS,
    st.booleans(),
    _TEXT,
    st.builds(Parts, *[_COUNTS] * 4),
    st.none() | st.integers(),
    _COUNTS,
    _MAYBE,
    st.sampled_from(get_args(Loss)),
    _COUNTS,
    _MAYBE,
    st.builds(Reported, *[_MAYBE] * 4),
    st.none() | st.builds(Gap, _COUNTS, _COUNTS, st.sampled_from(get_args(Reason))),
    st.none() | _TEXT,
    st.none() | st.floats(),
    st.lists(
        st.builds(
            Break,
            st.sampled_from(get_args(Where)),
            st.integers(0, 9),
            st.sampled_from(_CAUSES),
        ),
        max_size=2,
    ),
)
_WHAT_IFS = st.builds(
    WhatIf, _TEXT, _totals(), _totals(), _COUNTS, st.integers(), _MAYBE, _MAYBE, _TEXT
)


@st.composite
def _sessions(draw: st.DrawFn) -> Session:
    made = session(draw(st.sampled_from(["a.jsonl", "dir/b c.json", "-", "ä%20|`.json"])))
    made.rows = draw(st.lists(_ROWS, max_size=3))
    made.totals = draw(_totals())
    made.findings = draw(st.lists(_FINDINGS, max_size=3))
    made.notes = draw(st.lists(_TEXT, max_size=2))
    made.unreadable = draw(st.lists(st.builds(Unreadable, _PLACES, _TEXT), max_size=2))
    made.unreadable_count = len(made.unreadable)
    made.results = draw(
        st.lists(
            st.builds(
                Result,
                _PLACES,
                st.integers(0, 9),
                st.integers(1, 9),
                st.integers(0, 9),
                _TEXT,
                _COUNTS,
                _COUNTS,
            ),
            max_size=2,
        )
    )
    made.timelines = {
        0: Timeline([draw(_TEXT)], array("I", [draw(st.integers(0, 99))]), array("I", [1]))
    }
    made.what_if = draw(st.none() | _WHAT_IFS)
    return made


REPORTS = st.builds(
    Report,
    st.lists(_sessions(), max_size=3),
    st.lists(st.builds(Failed, _TEXT, _TEXT), max_size=2),
    st.lists(st.builds(Gate, _TEXT, st.booleans(), _TEXT, _TEXT), max_size=2),
    st.booleans(),
)
"""Random reports; their texts have what breaks a form: marks, line ends, controls."""


def names(kind: type) -> set[str]:
    """The fields of a dataclass or a named tuple."""
    if is_dataclass(kind):
        return {each.name for each in fields(kind)}
    return set(kind._fields)  # type: ignore[attr-defined]
