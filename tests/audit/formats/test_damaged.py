"""Does any file, however damaged, come to no more than lines that could not be read?"""

from __future__ import annotations

import io
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.formats import BY_NAME, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.source import source_of
from kvagent.audit.transcript import Hashed, Item, NoTranscript, Reported, Request, Unreadable
from tests.audit.formats.mutants import mutant, places, small
from tests.audit.formats.test_fields import ANYTHING
from tests.audit.formats.test_formats import SAMPLES

# More of them, in a long run: KVAGENT_MUTANTS=100000.
MUTANTS = int(os.environ.get("KVAGENT_MUTANTS", "1000"))


def counts(reported: Reported) -> list[int | None]:
    return [
        reported.prompt_tokens,
        reported.cached_tokens,
        reported.completion_tokens,
        reported.cache_write_tokens,
    ]


def check(item: Item) -> None:
    """An item is what its types say, whatever the file."""
    assert str(item.place)
    if isinstance(item, Unreadable):
        assert item.why
        return
    assert item.conversation is None or isinstance(item.conversation, str)
    assert item.time_s is None or isinstance(item.time_s, float)
    if isinstance(item, Hashed):
        assert all(type(block) is int for block in item.blocks)
        assert item.block_size > 0
        assert item.prompt_tokens >= 0
        return
    assert isinstance(item, Request)
    assert item.messages
    for message in (*item.messages, *item.replies):
        assert isinstance(message, dict)
        assert isinstance(message["role"], str)
        calls = message.get("tool_calls")
        assert not calls or (isinstance(calls, list) and all(isinstance(c, dict) for c in calls))
    assert all(isinstance(tool, dict) for tool in item.tools)
    assert all(count is None or 0 <= count <= 10**11 for count in counts(item.reported))
    assert item.error is None or isinstance(item.error, str)
    assert item.complete <= {"system", "tools"}


def read(data: bytes, format: str | None = None) -> None:
    contents = Contents.of(source_of("x", io.BytesIO(data)))
    try:
        known = BY_NAME[format] if format else recognise(contents)
    except NoTranscript:
        return
    for item in known.read(contents):
        check(item)


@pytest.mark.parametrize("name", SAMPLES)
def test_mutants_of_a_format(name: str) -> None:
    rng = random.Random(name)
    for _ in range(MUTANTS // len(SAMPLES)):
        read(mutant(SAMPLES[name], rng), name if rng.random() < 0.3 else None)


def real(path: Path) -> list[Any]:
    """The beginning of a real transcript, of each kind of line some."""
    data = path.read_bytes()
    if path.suffix == ".yaml":
        yaml = pytest.importorskip("yaml")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [small(json.loads(json.dumps(yaml.load(data, loader), default=str)))]
    try:
        return [small(json.loads(data))]
    except ValueError:
        lines = [json.loads(line) for line in data.splitlines()[:300]]
    kept: dict[str, list[Any]] = {}
    for line in lines:
        of_kind = kept.setdefault(f"{line.get('type')} {sorted(line)}", [])
        if len(of_kind) < 4:
            of_kind.append(small(line))
    return [line for of_kind in kept.values() for line in of_kind][:30]


def test_mutants_of_real_transcripts(shared: Path) -> None:
    files = sorted(
        path
        for path in (shared / "data").rglob("*")
        if path.suffix in (".json", ".jsonl", ".traj", ".yaml")
    )
    assert len(files) == 39
    rng = random.Random(0)
    for path in files:
        lines = real(path)
        for _ in range(MUTANTS // len(files)):
            read(mutant(lines, rng), rng.choice((None, None, None, *BY_NAME)))


@given(ANYTHING, st.sampled_from(sorted(BY_NAME)))
def test_any_json(value: Any, format: str) -> None:
    data = json.dumps(value).encode()
    read(data)
    read(data, format)
    read(b"\n".join([data, b'{"messages": [{"role": "user", "content": ""}]}', data]), format)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    read(data)


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_value_in_the_place_of_another(name: str, data: st.DataObject) -> None:
    """Anything, anywhere in a transcript."""
    lines = json.loads(json.dumps(SAMPLES[name]))
    holder: Any = lines
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if not (isinstance(inner, dict | list) and inner and data.draw(st.integers(0, 3))):
            break
        holder = inner
    holder[key] = data.draw(ANYTHING)
    written = b"\n".join(json.dumps(line).encode() for line in lines)
    read(written)
    read(written, name)


def deep(depth: int) -> bytes:
    return b'{"x": 1, "content": [' * (depth // 2) + b'"x"' + b"]}" * (depth // 2)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_nested_as_deep_as_json_may_be(name: str) -> None:
    """In every place of a transcript, and once more, so that equals are compared."""
    for holder, key in places(lines := json.loads(json.dumps(SAMPLES[name]))):
        kept = holder[key]
        holder[key] = "@"
        data = b"\n".join(json.dumps(line).encode() for line in lines)
        holder[key] = kept
        for depth in (300, 1000):
            twice = data.replace(b'"@"', deep(depth))
            read(twice + b"\n" + twice, name)
            read(twice)
