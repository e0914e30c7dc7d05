"""Does a redacted report keep its figures and shape, and nothing of a text?"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvagent.audit.prompts import Estimated
from kvagent.audit.redact import contrast_stand_in, redacted, stand_in
from kvagent.audit.report.as_json import as_dict
from kvagent.audit.rule import Contrast
from kvagent.audit.run import audit_files
from kvagent.audit.session import Failed, Report, Session
from kvagent.audit.settings import Settings
from kvagent.prefixcache.seen import common_prefix
from tests.audit.report.forms import FORMS, written
from tests.audit.report.reports import everything, row, session

Count = Callable[[str], int]

COUNTERS = ("cl100k", "bpe", "qwen", "characters")

WORDS = (
    "Current time: 2026-11-30 17:05:01",
    "/home/ada/geheim.py",
    "def f(x):\n    return x\n\n",
    '{"path": "a.py", "limit": 100}',
    "naïve 北京 🙂",
    "x x x",
    " b a ",
    "\t\r\n",
    "4711",
)
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=12), max_size=8).map("".join)


def estimated() -> Count:
    return Estimated().count


@pytest.fixture(scope="session")
def counters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Count]:
    """The general tokenizer, and one that was trained here, as Hugging Face's files have them."""
    tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers (extra exact)")
    corpus = Path(__file__).parent.rglob("*.py")
    made = tokenizers.ByteLevelBPETokenizer()
    made.train([str(path) for path in corpus], vocab_size=1_000)
    found: dict[str, Count] = {
        "cl100k": estimated(),
        "bpe": lambda text: len(made.encode(text).ids),
        "characters": len,
    }
    lab = Path(os.environ.get("KVLAB") or Path.home() / ".cache" / "kvlab")
    if (lab / "qwen" / "tokenizer.json").exists():
        qwen = tokenizers.Tokenizer.from_file(str(lab / "qwen" / "tokenizer.json"))
        found["qwen"] = lambda text: len(qwen.encode(text, add_special_tokens=False).ids)
    return found


def counter(counters: dict[str, Count], name: str) -> Count:
    if name not in counters:
        pytest.skip("no tokenizer of Qwen: run measure/setup.sh of the shared folder")
    return counters[name]


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]{3,}", text))


@pytest.mark.parametrize("name", COUNTERS)
@given(text=TEXTS)
@settings(max_examples=100, deadline=None)
def test_a_stand_in_has_as_many_tokens_and_no_word(
    counters: dict[str, Count], name: str, text: str
) -> None:
    count = counter(counters, name)
    made = stand_in(text, count)
    assert count(made) == count(text)
    assert not words(made)
    assert made == stand_in(text, count)


@pytest.mark.parametrize("name", COUNTERS)
@example(common="", old="", new="0", tail="Current time: 2026-11-30 17:05:01")
@given(common=TEXTS, old=TEXTS, new=TEXTS, tail=TEXTS)
@settings(max_examples=200, deadline=None)
def test_a_contrast_keeps_its_shape(
    counters: dict[str, Count], name: str, common: str, old: str, new: str, tail: str
) -> None:
    count = counter(counters, name)
    before, after = common + old + tail, common + new + tail
    at = common_prefix(before, after)
    made = contrast_stand_in(Contrast(before, after, at), count)
    assert [count(made.before), count(made.after)] == [count(before), count(after)]
    assert not words(made.before + " " + made.after)
    assert (made.before == made.after) == (before == after) or count(before) == count(after) == 0
    assert made.offset == common_prefix(made.before, made.after)
    if not at:
        assert not made.offset
    # Of what both have in common a token or two, at the border, may be counted to what differs.
    if name == "cl100k" and before != after:
        assert count(made.before[: made.offset]) <= count(before[:at]) + 1
        if min(count(before), count(after)) > count(before[:at]):
            assert count(made.before[: made.offset]) >= count(before[:at]) - 1


def test_what_is_common_stays_on_both_sides() -> None:
    made = contrast_stand_in(
        Contrast(
            "You are careful. It is 12:30:01 now. Be brief.",
            "You are careful. It is 12:30:09 now. Be brief.",
            29,
        ),
        estimated(),
    )
    assert made.before == "x x x x x x x x x x x x b x x x x"
    assert made.after == "x x x x x x x x x x x x a x x x x"
    assert made.offset == 24


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "It is new.", ("", "a a a a")),
        ("It is gone.", "", ("b b b b", "")),
        ("One two", "One two three", ("x x", "x x a")),
        ("One two four", "One two three four", ("x x x", "x x a x")),
        ("same", "same", ("x", "x")),
    ],
)
def test_a_side_without_text_of_its_own_has_none(
    before: str, after: str, expected: tuple[str, str]
) -> None:
    made = contrast_stand_in(Contrast(before, after, common_prefix(before, after)), estimated())
    assert (made.before, made.after) == expected


def figures(value: Any) -> Iterator[tuple[str, object]]:
    """All of a report that is no text, with its place."""
    if is_dataclass(value):
        for each in fields(value):
            if each.name != "offset":
                for path, found in figures(getattr(value, each.name)):
                    yield f".{each.name}{path}", found
    elif isinstance(value, dict):
        for key, inner in value.items():
            for path, found in figures(inner):
                yield f"[{key}]{path}", found
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            for path, found in figures(inner):
                yield f"[{at}]{path}", found
    elif not isinstance(value, str) and value is not None:
        yield "", value


def test_figures_stay_as_they_are() -> None:
    report = everything()
    made = redacted(report, estimated())
    assert made.redacted
    changed = dict(figures(made)).items() ^ dict(figures(report)).items()
    assert {path for path, _ in changed} == {".redacted"}
    assert [each.file for each in made.sessions] == [each.file for each in report.sessions]
    assert report == everything(), "the report itself was changed"


def test_twice_is_once() -> None:
    once = redacted(everything(), estimated())
    assert as_dict(redacted(everything(), estimated())) == as_dict(once)


def test_sentences_become_the_rules_own() -> None:
    made = redacted(everything(), estimated()).sessions[0].findings[1]
    assert made.said == made.rule.summary
    assert made.fix == made.rule.fix


def test_a_note_does_not_say_what_a_template_said() -> None:
    made = session(
        rows=[row(1, fault=f"the template says: {SECRET}.")],
        notes=[
            f"The tokens of 1 request are estimates: the template says: {SECRET}.",
            "This trace holds no texts: it shows what could have been cached.",
        ],
    )
    notes = redacted(Report([made]), estimated()).sessions[0].notes
    assert notes == ["The tokens of 1 request are estimates.", made.notes[1]]


def test_what_a_file_looks_like_is_left_out() -> None:
    failed = [
        Failed("a:b.txt", "a:b.txt is no transcript: it looks like an object with the keys ada."),
        Failed("c.txt", "c.txt cannot be read: Permission denied."),
        Failed("d.txt", "d.txt is empty."),
    ]
    made = redacted(Report([], failed), estimated())
    assert [each.why for each in made.failed] == [
        "a:b.txt is no transcript.",
        "c.txt cannot be read.",
        "d.txt is empty.",
    ]


# What stands in every place of a log where a user may write something.
SECRET = "Zugangscode"


def secret(number: int) -> str:
    return f"{SECRET}{number:03} is /srv/{SECRET}/{number} "


def secretive() -> bytes:
    """A log of requests that breaks every rule that it can, with a secret in each of its texts."""

    def tool(number: int) -> dict[str, Any]:
        function = {
            "name": f"{SECRET}_{number}",
            "description": secret(number),
            "parameters": {
                "type": "object",
                "properties": {f"{SECRET}{number}": {"description": secret(number)}},
            },
        }
        return {"type": "function", "function": function}

    def call(number: int, arguments: str) -> dict[str, Any]:
        function = {"name": f"{SECRET}_1", "arguments": arguments}
        calls = [{"id": f"{SECRET}{number}", "type": "function", "function": function}]
        return {"role": "assistant", "content": secret(number), "tool_calls": calls}

    def result(number: int, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": f"{SECRET}{number}", "content": text}

    long = "".join(map(secret, range(900)))
    picture = "data:image/png;base64," + "QUJD" * 4_000
    lines = []
    for turn in range(12):
        arguments = {f"{SECRET}_a": secret(turn % 3), f"{SECRET}_b": turn % 2}
        if turn % 2:
            arguments = dict(reversed(arguments.items()))
        messages = [
            {
                "role": "system",
                "content": f"{secret(1)} Current time: 2026-01-0{1 + turn % 9} 12:00:{turn:02}. "
                f"Request id: {turn:08x}-1111-2222-3333-444444444444. {secret(2)}",
            },
            {"role": "user", "content": secret(3) + (picture if turn == 4 else "")},
            call(1, json.dumps(arguments)),
            result(1, long),
            call(2, "{}"),
            result(2, long),
            *[{"role": "user", "content": f"{secret(30 + number)}"} for number in range(turn)],
            {"role": SECRET, "content": secret(5)},
            result(77, secret(6)),
        ]
        if turn == 6:
            messages[1] = {"role": "user", "content": secret(99)}
        if turn == 8:
            del messages[2:4]
        record: dict[str, Any] = {
            "request": {
                "model": f"{SECRET}-7b",
                "messages": messages,
                "tools": [tool(number) for number in range(1, 5 + turn % 2)][
                    :: -1 if turn % 3 else 1
                ],
                "user": secret(7),
                f"{SECRET}_option": turn % 2,
                "chat_template_kwargs": {SECRET: turn % 4 == 0},
            },
            "metadata": {"session_id": SECRET, SECRET: secret(8)},
        }
        if turn % 5 == 3:
            record["response"] = {"error": {"message": secret(9), "code": SECRET}}
        else:
            message = {"role": "assistant", "content": secret(10), "reasoning": secret(11)}
            record["response"] = {
                "id": SECRET,
                "choices": [{"message": message, "finish_reason": SECRET}],
                "usage": {
                    "prompt_tokens": 9_000,
                    "completion_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": 0},
                },
            }
        lines.append(orjson.dumps(record))
        if turn == 5:
            lines += [
                orjson.dumps({SECRET: secret(12)}),
                orjson.dumps(secret(13)),
                orjson.dumps({"request": {"messages": [{"content": secret(14)}]}}),
                b'{"request": "' + secret(15).encode() + b'" ' + SECRET.encode(),
            ]
    return b"\n".join(lines) + b"\n"


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on a log of secrets, and on files that are something else."""
    folder = tmp_path_factory.mktemp("logs")
    logs = {
        "log.jsonl": secretive(),
        "keys.json": orjson.dumps({SECRET: secret(20)}),
        "text.yaml": f"{SECRET}: [{secret(21)}\n- {{".encode(),
        "cassette.yaml": f"interactions:\n- request: {{{SECRET}: [{secret(22)}\n".encode(),
    }
    for name, data in logs.items():
        (folder / name).write_bytes(data)
    report = audit_files([folder / name for name in logs], Settings(fail_on=("note",)))
    assert [Path(each.file).name for each in report.failed] == list(logs)[1:]
    return report


def test_the_log_of_secrets_is_worth_a_look(leaky: Report) -> None:
    session = leaky.sessions[0]
    assert len(session.rows) == 12
    assert session.unreadable
    assert session.results
    assert any(row.error for row in session.rows)
    assert session.what_if is not None
    assert SECRET in str(as_dict(leaky)["sessions"])
    assert SECRET in str(as_dict(leaky)["failed"]), "else there is nothing to hide"
    assert len({finding.rule.code for finding in session.findings}) >= 8


@pytest.mark.parametrize("form", FORMS)
def test_no_secret_is_left_in_any_form(leaky: Report, form: str) -> None:
    made = redacted(leaky, estimated())
    text = written(made, form)
    assert SECRET.lower() not in text.lower()
    assert "444444444444" not in text
    assert "QUJDQUJD" not in text


def test_recorded_sessions_keep_no_word(recorded: list[Session]) -> None:
    """Of texts that were replaced no word stays, but for those of the rules."""
    for each in recorded:
        made = redacted(Report([each]), estimated()).sessions[0]
        for finding, other in zip(each.findings, made.findings, strict=True):
            for spot, now in zip(finding.spots, other.spots, strict=True):
                pairs = [(spot.excerpt, now.excerpt)]
                if spot.contrast is not None and now.contrast is not None:
                    pairs.append((spot.contrast.before, now.contrast.before))
                    pairs.append((spot.contrast.after, now.contrast.after))
                for text, stand in pairs:
                    assert estimated()(text) == estimated()(stand)
                    assert not words(stand)
