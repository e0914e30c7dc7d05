"""Is everything told in full, and are hundreds of turns thinned?"""

from __future__ import annotations

from tests.audit.report.reports import CLOCK, everything, finding, row, spot
from tests.audit.report.terminal.telling import one, told


def test_everything_is_told_in_full() -> None:
    lines = told(everything(), details=True)
    text = "\n".join(lines)
    for said in (
        "2 sessions",
        "Line 2, turn 2 · message 0 · content · character 31: ≈84 tokens",
        "    before  It is 12:30:01 now.↵Be",
        "    now     It is 12:30:09 now.↵Be",
        " " * len("    before  It is 12:30:0") + "^",
        "Also line 3 turn 3 message 0",
        '    messages.append({"role": "user", "content": f"Now: {now}"})',
        "The tool `fetch` is never called.",
        '    {"type": "function"',
        "logs/monday run.jsonl:9 is not JSON: unexpected end",
        "The transcript does not have the tools: their tokens are left out.",
        "512 KiB of KV cache",
        "Tool results, the largest first",
        "message 0: system changed",
        "✗ min-hit-rate: The hit rate is 48.0 %, below 90 %.",
        "notes.txt is no transcript: it looks like text.",
    ):
        assert said in text, said


def test_hundreds_of_turns_are_thinned() -> None:
    rows = [row(at) for at in range(1, 500)]
    rows[300] = row(301, wasted_tokens=7, error="too many requests")
    lines = told(one(rows=rows), details=True)
    (title,) = (at for at, line in enumerate(lines) if line.startswith("Turns, "))
    assert lines[title].endswith(" of 499, in estimated tokens")
    table = lines[title + 1 :]
    turns = [line.split()[0] for line in table if line[:6].strip().isdigit()]
    assert {"1", "301", "499"} <= set(turns)
    assert len(turns) <= 60
    left_out = [line.split() for line in table if line.strip().startswith("…")]
    assert len(turns) + sum(int(words[1]) for words in left_out) == 499
    assert any("too many requests" in line for line in table)


def test_a_place_behind_another_fault_has_no_cost_of_its_own() -> None:
    found = finding(CLOCK, spot(tokens=0, behind="KVA103"), tokens=0)
    text = " ".join(" ".join(told(one(findings=[found]), details=True)).split())
    assert "behind KVA103, which has the cost" in text
