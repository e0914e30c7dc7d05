"""Is a file's format known by what is in it, and is it said what a file is that has none?"""

from __future__ import annotations

import bz2
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.formats import BY_NAME, FORMATS, read, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.source import LARGEST_DOCUMENT, opened
from kvagent.audit.transcript import NoTranscript, Request, Unreadable
from tests.audit.formats import (
    test_claude_code,
    test_codex,
    test_langchain,
    test_langfuse,
    test_openhands_sdk,
    test_pi,
)
from tests.audit.formats.dialects import test_anthropic, test_responses
from tests.audit.formats.files import SESSION, USER, write
from tests.audit.formats.test_inspect_log import event, log
from tests.audit.formats.test_litellm import STANDARD
from tests.audit.formats.test_openhands import EVENTS
from tests.audit.formats.test_otlp import FIELDS, batch, span
from tests.audit.formats.test_swe_agent import HISTORY

CALL = {"role": "assistant", "function_call": {"name": "ls", "arguments": "{}"}}

# Of every format, lines that have nothing more particular in them.
SAMPLES: dict[str, list[Any]] = {
    "openai_chat": [{"messages": SESSION}],
    "openai_functions": [{"messages": [USER, CALL]}, {"messages": [USER], "functions": []}],
    "openai_responses": [{"model": "m", "input": "hi"}, test_responses.BODY],
    "anthropic": [{"body": test_anthropic.BODY}],
    "claude_code": test_claude_code.SESSION,
    "claude_web": [{"loglines": test_claude_code.SESSION}],
    "codex": test_codex.SESSION,
    "pi": [test_pi.HEAD, *test_pi.SESSION],
    "openhands": [EVENTS],
    "openhands_sdk": [test_openhands_sdk.EVENTS],
    "inspect": [log({"id": 1, "epoch": 1, "messages": [], "events": [event([])]})],
    "tau_bench": [[{"task_id": 1, "traj": SESSION}]],
    "swe_agent": [{"trajectory": [], "history": HISTORY}],
    "mini_swe": [{"trajectory_format": "mini-swe-agent-1", "messages": SESSION}],
    "toolbench": [{"answer_generation": {"train_messages": [SESSION]}}],
    "langfuse": [test_langfuse.export(test_langfuse.call([USER]))],
    "otlp": [batch(span(FIELDS))],
    "langchain": [test_langchain.STATE],
    "cassette": [{"interactions": [{"request": {"body": "{}"}, "response": {}}], "version": 1}],
    "har": [{"log": {"entries": [{"request": {"url": "x"}, "response": {}}]}}],
    "mooncake": [{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}],
    "weka": [{"block_size": 64, "requests": [{"in": 64, "hash_ids": [1]}]}],
    "litellm": [STANDARD],
}


def test_there_is_a_sample_of_every_format() -> None:
    assert set(SAMPLES) == set(BY_NAME) == {each.name for each in FORMATS}
    assert len(BY_NAME) == len(FORMATS)
    assert all(each.title for each in FORMATS)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, *SAMPLES[name], name="data.txt")
    with opened(path) as source:
        assert recognise(Contents.of(source)).name == name
    path = write(tmp_path, *SAMPLES[name][:1], indent=2, name="data.txt")
    with opened(path) as source:
        assert recognise(Contents.of(source)).name == name


@pytest.mark.parametrize("name", SAMPLES)
def test_what_one_reader_does_not_know_it_names(tmp_path: Path, name: str) -> None:
    """Any reader forced on any file: there are lines that cannot be read, and nothing worse."""
    for other, sample in SAMPLES.items():
        found = list(read(write(tmp_path, *sample, name=other), name))
        assert all(each.place.file for each in found)


def test_lines_that_cannot_be_read_do_not_hide_the_format(tmp_path: Path) -> None:
    path = tmp_path / "log"
    body = json.dumps({"messages": SESSION[:4]})
    path.write_text(f'cut"}}\n{body}\n\n{body}\n{body[:50]}')
    found = list(read(path))
    assert [type(each) for each in found] == [Unreadable, Request, Request, Unreadable]
    assert [each.place.line for each in found] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("data", "looks"),
    [
        (b"", "an empty file"),
        (b"\n \n", "an empty file"),
        (b"PK\x03\x04...", "a ZIP archive"),
        (bz2.compress(b"{}"), "a bzip2 archive, which has to be unpacked first"),
        (lzma.compress(b"{}"), "an xz archive, which has to be unpacked first"),
        (b"\x00\x01\x02", "binary data"),
        (b"<!DOCTYPE html>", "HTML or XML"),
        (b"name: x\nversion: 1\n", "YAML"),
        (b"a,b\n1,2\n", "text"),
        (b'{"messages": [{"role"', "JSON that cannot be read: it is not JSON"),
        (b'{"name": "x", "version": "1"}', "an object with the keys name, version;"),
        (b'{"name": "x"}\n', "an object with the keys name;"),
        (b'{\n  "name": "x"\n}\n', "an object with the keys name;"),
        (b'{"a": 1}\n{"b": 2}', "an object with the keys a, one value a line"),
        (b"[1, 2]", "a list of which the first item is a number"),
        (b'[["x"]]', "a list of which the first item is a list"),
        (b"[]", "an empty list"),
        (b"{}", "an empty object"),
        (json.dumps(dict.fromkeys("abcdefgh")).encode(), "a, b, c, d, e, f, ..."),
    ],
)
def test_what_is_no_transcript(tmp_path: Path, data: bytes, looks: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(NoTranscript) as caught:
        list(read(path))
    sentence = str(caught.value)
    assert sentence.startswith(f"{path} is no transcript: it looks like ")
    assert looks in sentence
    assert sentence.endswith(
        "expected was a list of chat messages, recorded requests, or a session of an agent."
    )


def test_a_file_of_one_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(LARGEST_DOCUMENT + 2)
    with pytest.raises(NoTranscript, match="a file that is one line of more than 128 MiB"):
        list(read(path))


def test_there_is_no_such_format(tmp_path: Path) -> None:
    with pytest.raises(NoTranscript, match="there are anthropic, "):
        list(read(write(tmp_path, SESSION), "openai"))
