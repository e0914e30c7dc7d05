"""Does the policy say what is done, a field before the file and the window before both?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.rewrite.recordings import SESSION, run

LONG = json.dumps(
    {
        "messages": [
            {"role": "user", "content": "Look"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": "\n".join(f"row {at} of many: {at * 7919}" for at in range(4000)),
            },
        ]
    }
).encode()


def test_a_policy_switches_a_stage_off(folder: Path) -> None:
    (folder / "off.json").write_text('{"evict": null}')
    assert len(run("-", stdin=LONG).stdout) < len(LONG) / 2
    assert run("-", "--policy", "off.json", stdin=LONG).stdout_bytes == LONG


def test_the_window_goes_before_the_policy(folder: Path) -> None:
    (folder / "p.toml").write_text('window = 8_000_000\n[evict]\ntrigger = "fraction(0.5)"\n')
    assert run("-", "--policy", "p.toml", stdin=LONG).stdout_bytes == LONG
    narrow = run("-", "--policy", "p.toml", "--window", "8000", stdin=LONG)
    assert len(narrow.stdout) < len(LONG) / 2


def test_fields_go_before_the_policy_and_the_last_one_counts(folder: Path) -> None:
    (folder / "p.toml").write_text("window = 8_000\n[evict]\nkeep = 3_000\n")
    wide = run("-", "--policy", "p.toml", stdin=LONG).stdout
    narrow = run("-", "--policy", "p.toml", "--set", "evict.keep=500", stdin=LONG).stdout
    assert len(narrow) < len(wide) < len(LONG)
    again = ["--set", "evict.keep=9000", "--set", "evict.keep=500"]
    assert run("-", "--policy", "p.toml", *again, stdin=LONG).stdout == narrow
    stages = [word for name in ("evict", "clear", "compact") for word in ("--set", f"{name}=off")]
    assert run("-", "--policy", "p.toml", *stages, stdin=LONG).stdout_bytes == LONG


@pytest.mark.parametrize("off", ["off", "false", "null"])
def test_a_stage_is_switched_off_by_a_field(folder: Path, off: str) -> None:
    assert run("-", "--set", f"evict={off}", stdin=LONG).stdout_bytes == LONG


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        (["evict.trigger=tokens(900_000)"], True),
        (["evict.trigger=900000"], True),
        (['evict.exclude_tools=["f"]'], True),
        (['evict.exclude_tools=["g"]'], False),
        (["mode=observe"], True),
        (["evict=off", "evict=on"], False),
        (["evict=off", "evict.keep=900"], False),
    ],
)
def test_fields_of_every_kind(folder: Path, fields: list[str], same: bool) -> None:
    options = [word for field in fields for word in ("--set", field)]
    assert (run("-", *options, stdin=LONG).stdout_bytes == LONG) is same


def test_observe_mode_writes_what_came(folder: Path) -> None:
    (folder / "p.json").write_text('{"mode": "observe"}')
    result = run("in.jsonl", "--policy", "p.json", "--events", "e", "--verbose")
    assert result.stdout_bytes == SESSION
    assert "would be saved" in result.stderr
    assert b'"applied":false' in (folder / "e").read_bytes()


@pytest.mark.parametrize(("mode", "freed"), [("observe", "would be freed"), ("full", "freed")])
def test_what_is_only_observed_is_not_freed(folder: Path, mode: str, freed: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "log", "arguments": "{}"}}
    long = "\n".join(f"line {number} of a log that is long" for number in range(2_000))
    messages = [
        {"role": "user", "content": "Read the log."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": long},
    ]
    (folder / "long.jsonl").write_text(json.dumps({"model": "m", "messages": messages}) + "\n")
    result = run("long.jsonl", "--set", f"mode={mode}", "--verbose")
    (told,) = (line for line in result.stderr.splitlines() if line.startswith("evict: once, "))
    assert told.split(" tokens ")[1].split(",")[0] == freed
