"""Is what-if what `kvagent rewrite` makes of a session, counted by a meter that shares no code with it?"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kvagent.audit.analyse import audit
from kvagent.audit.formats import recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.openai_chat import FORMAT
from kvagent.audit.prediction import Target
from kvagent.audit.prompts import Estimated, Prompts
from kvagent.audit.rendered import Exact
from kvagent.audit.session import Session, WhatIf
from kvagent.audit.source import opened
from kvagent.audit.transcript import Hashed, Item, Place, Reported, Request
from kvagent.audit.turns import Analysis, Turn
from kvagent.audit.whatif import WhatIfSent
from kvagent.cli import main
from kvagent.engine import Engine
from kvagent.policy import Compact, Policy
from tests.audit.logs import SYSTEM, TOOLS, Message, call, interleaved, request, result, user
from tests.audit.test_rendered import TOYS, logs, model
from tests.tokens.toy_templates import Toy

CLOCKS = [
    [{**SYSTEM, "content": f"You help.\nCurrent time: 2026-03-02 09:00:0{at}"}, user("Hello")]
    for at in range(5)
]


def watched(
    items: list[Item], policy: Policy | None = None, analysis: Analysis | None = None
) -> tuple[Session, WhatIf]:
    analysis = analysis or Analysis(target=Target(block_size=1))
    watcher = WhatIfSent(policy or Policy(), analysis)
    session = audit(items, "log.jsonl", FORMAT, analysis, watchers=[watcher])
    return session, watcher.result(session)


def file(path: Path, policy: Policy, prompts: Prompts) -> WhatIf:
    with opened(path) as source:
        contents = Contents.of(source)
        known = recognise(contents)
        analysis = Analysis(prompts)
        watcher = WhatIfSent(policy, analysis)
        session = audit(known.read(contents), path.name, known, analysis, watchers=[watcher])
    return watcher.result(session)


# -- as rewrite and the meter have it


class Lab:
    """The neutral meter, and the tokenizer that it uses."""

    def __init__(self, shared: Path) -> None:
        self.folder = Path(os.environ.get("KVLAB") or Path.home() / ".cache" / "kvlab")
        self.measure = shared / "measure"
        self.python = self.folder / "venv" / "bin" / "python"
        if not self.python.exists() or not (self.folder / "qwen" / "tokenizer.json").exists():
            pytest.skip(f"the meter needs {self.folder}: run measure/setup.sh of the shared folder")
        self._metered: dict[bytes, dict[str, Any]] = {}
        self._template = shared / "data" / "chat_templates" / "Qwen-Qwen2.5-7B-Instruct.jinja"

    def prompts(self) -> Exact:
        from kvagent.tokens.model import Model

        return Exact(Model.from_folder(self.folder / "qwen", self._template.read_text()))

    def run(self, script: str, *arguments: str) -> str:
        return subprocess.run(
            [str(self.python), str(self.measure / script), *arguments],
            env={**os.environ, "KVLAB": str(self.folder)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def meter(self, path: Path) -> dict[str, Any]:
        """What it says of a file; of the same bytes it says the same."""
        content = path.read_bytes()
        if content not in self._metered:
            self._metered[content] = json.loads(self.run("meter.py", str(path), "--json"))
        return self._metered[content]


@pytest.fixture(scope="module")
def lab(shared: Path) -> Lab:
    return Lab(shared)


WINDOWS = [None, 32_000, 16_000]


def check_as_metered(recording: Path, window: int | None, lab: Lab, folder: Path) -> WhatIf:
    found = file(recording, Policy(window=window), lab.prompts())
    out = folder / "out.jsonl"
    options = [] if window is None else ["--window", str(window)]
    done = CliRunner().invoke(main, ["rewrite", str(recording), "-o", str(out), *options])
    assert done.exit_code == 0, done.stderr
    for side, path in ((found.before, recording), (found.after, out)):
        figures = lab.meter(path)
        assert side.exact
        assert side.requests == figures["requests"]
        assert side.prompt_tokens == figures["tokens"]
        assert side.prompt_tokens - side.predicted_tokens == figures["prefill"]
        assert side.longest == figures["max"]
        assert side.hit_rate is not None
        assert round(100 * side.hit_rate, 1) == figures["hit"]
        breaks = found.breaks_before if side is found.before else found.breaks_after
        assert breaks == figures["breaks"]
    lines = [path.read_bytes().splitlines() for path in (recording, out)]
    assert found.edited == sum(one != other for one, other in zip(*lines, strict=True))
    assert found.left_out == ""
    return found


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "name", ["requests", "requests_clean", "requests_keyorder", "requests_long"]
)
def test_recorded_requests(
    name: str, window: int | None, shared: Path, lab: Lab, tmp_path: Path
) -> None:
    found = check_as_metered(shared / "cases" / f"{name}.jsonl", window, lab, tmp_path)
    assert found.saved_tokens > 0


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("claudecode_3fe1b6bc", 16_000),
        ("pi_before-compaction", 16_000),
    ],
)
def test_sessions_as_requests(
    name: str, window: int | None, shared: Path, lab: Lab, tmp_path: Path
) -> None:
    """In the small window old turns are cleared and compacted."""
    recording = tmp_path / "in.jsonl"
    lab.run("to_requests.py", str(shared / "data" / f"{name}.jsonl"), str(recording),
            "--max-turns", "30")  # fmt: skip
    found = check_as_metered(recording, window, lab, tmp_path)
    assert "clear" in dict(found.stages)


# -- beside the session, request by request


@settings(max_examples=30, deadline=None)
@given(interleaved(), st.sampled_from([None, 2_000]))
def test_the_engine_in_the_foreground_makes_the_same(
    mixed: list[tuple[int, list[Message]]], window: int | None
) -> None:
    items = [request(prompt, tools=TOOLS) for _, prompt in mixed]
    analysis = Analysis()
    engine = Engine(Policy(window=window, probe=False, compact=Compact(background=False)))
    analysed = []
    edited = 0
    for item in items:
        body = {"messages": item.messages, "tools": item.tools}
        sent = json.loads(engine.rewrite(json.dumps(body, ensure_ascii=False).encode()))
        edited += sent != body
        analysed.append(analysis.turn(request(sent["messages"], tools=sent["tools"])))
    session, found = watched(list(items), Policy(window=window), Analysis())
    assert found.edited == edited
    assert found.before is session.totals
    assert found.after.prompt_tokens == sum(turn.prompt_tokens for turn in analysed)
    assert found.after.predicted_tokens == sum(turn.predicted_tokens or 0 for turn in analysed)
    before, after = found.before, found.after
    assert found.saved_tokens == (
        before.prompt_tokens - before.predicted_tokens
    ) - (after.prompt_tokens - after.predicted_tokens)  # fmt: skip
    assert found.left_out == ""


@settings(max_examples=40, deadline=None)
@given(TOYS, logs(), st.sampled_from([None, 600]))
def test_what_both_sides_have_is_counted_once_and_still_right(
    toy: Toy, log: list[tuple[list[Message], list[dict[str, Any]]]], window: int | None
) -> None:
    """One counter for both gives the same as one for each, whatever the template."""

    class Apart(WhatIfSent):
        def __init__(self, policy: Policy, analysis: Analysis) -> None:
            other = Analysis(Exact(model(toy.source())), analysis.target)
            super().__init__(policy, other)

    found = []
    for kind in (WhatIfSent, Apart):
        analysis = Analysis(Exact(model(toy.source())), Target(block_size=1))
        watcher = kind(Policy(window=window), analysis)
        items = [request(messages, tools=tools) for messages, tools in log]
        session = audit(items, "log.jsonl", FORMAT, analysis, watchers=[watcher])
        found.append(watcher.result(session))
    assert found[0] == found[1]


def test_a_clock_in_the_head() -> None:
    items: list[Item] = [request(prompt) for prompt in CLOCKS]
    session, found = watched(items)
    assert (found.breaks_before, found.breaks_after) == (4, 0)
    assert found.stages == [("pin_head", 5)]
    assert found.saved_tokens > 0
    assert found.after.hit_rate is not None
    assert session.totals.hit_rate is not None
    assert found.after.hit_rate > session.totals.hit_rate
    assert found.policy == "the default policy"


def test_the_policy_is_told() -> None:
    items: list[Item] = [request(prompt) for prompt in CLOCKS]
    _, found = watched(items, Policy(pin_head=None, window=9_000))
    assert found.policy == "window=9000; pin_head=off"
    assert (found.edited, found.breaks_after) == (0, 4)
    assert found.after.predicted_tokens == found.before.predicted_tokens
    _, found = watched(items, Policy(mode="observe"))
    assert (found.edited, found.stages) == (0, [])


def test_a_policy_that_names_a_file_which_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone\.jinja"):
        WhatIfSent(Policy(template=tmp_path / "gone.jinja"), Analysis())


def test_the_peak_of_the_kv_cache_counts_answers() -> None:
    text = "a line of a file that is long\n" * 2_000
    prompt = [SYSTEM, user("read"), call("read", "1"), result(text, "1")]
    items: list[Item] = [request(prompt, reported=Reported(9, 3, 1_000))]
    session, found = watched(items, analysis=Analysis(kv_bytes=lambda tokens: tokens * 10))
    assert found.kv_peak_before == session.rows[0].kv_bytes
    assert found.kv_peak_after == (found.after.longest + 1_000) * 10
    assert found.after.longest < found.before.longest
    assert found.after.reported_requests == 0
    assert watched(items)[1].kv_peak_before is None


def test_prompts_that_the_server_refuses() -> None:
    text = "".join(f"line {at} of a file\n" for at in range(2_000))
    short = [SYSTEM, user("read")]
    long = [*short, call("read", "1"), result(text, "1")]
    items: list[Item] = [request(short), request(long)]
    analysis = Analysis(target=Target(window=8_000))
    session, found = watched(items, Policy(window=8_000), analysis)
    assert session.rows[1].predicted_tokens is None
    assert (found.refused_before, found.refused_after) == (1, 0)
    assert found.saved_tokens == 0
    assert found.left_out == "The saved prefill is without 1 request that is refused."


# -- where there is no such figure


def test_a_trace_without_texts() -> None:
    traced = Hashed(Place("x", 3), (1, 2), 64, 130)
    session, found = watched([traced])
    assert found.left_out == "The trace has no texts that could be sent."
    assert found.after.requests == 0
    assert watched([])[1].left_out == "There is no request."
    assert session.requests == 1


def test_requests_that_kvagent_lets_through() -> None:
    half = [SYSTEM, user("half a pair: \ud800")]
    items: list[Item] = [request(CLOCKS[0]), request(half), request(CLOCKS[1])]
    _, found = watched(items)
    assert found.left_out.startswith("1 request goes out unchanged: ")
    assert "half a pair" not in found.left_out
    assert found.after.requests == 3
    assert found.edited == 2


def test_messages_in_any_sequence() -> None:
    items = [
        replace(request(prompt), messages=tuple(prompt), tools=tuple(TOOLS)) for prompt in CLOCKS
    ]
    _, found = watched(list(items))
    assert (found.edited, found.left_out) == (5, "")


@pytest.mark.parametrize(
    "name", ["claudecode_9eda1058.jsonl", "codex_rollout_019e1625.jsonl", "tau_airline_12.json",
             "miniswe_github_issue.traj.json", "inspect_browser.json"],
)  # fmt: skip
def test_sessions_of_other_forms_are_sent_too(name: str, shared: Path) -> None:
    """Whatever a format makes of its messages, they are a body that kvagent takes on."""
    found = file(shared / "data" / name, Policy(), Estimated())
    assert found.after.requests == found.before.requests
    assert "unchanged" not in found.left_out
    assert found.breaks_after <= found.breaks_before


def test_an_error_never_reaches_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[Item] = [request(prompt) for prompt in CLOCKS]
    turn, sent = Analysis.turn, [0]

    def fails(self: Analysis, asked: Request) -> Turn:
        sent[0] += 1
        if sent[0] == 4:
            raise RuntimeError("a secret of the prompt")
        return turn(self, asked)

    monkeypatch.setattr(Analysis, "turn", fails)
    session, found = watched(items)
    assert session.requests == 5
    assert found.left_out.startswith("An error inside kvagent at log.jsonl")
    assert "RuntimeError in test_whatif.py" in found.left_out
    assert "secret" not in found.left_out
    assert found.after.requests == 0


def test_nothing_of_the_log_is_changed() -> None:
    text = "a line of a file that is long\n" * 2_000
    prompt = [*CLOCKS[0], call("read", "1"), result(text, "1")]
    items: list[Item] = [request(prompt, tools=TOOLS), request([*prompt, user("on")], tools=TOOLS)]
    before = copy.deepcopy(items)
    _, found = watched(items)
    assert found.edited == 2
    assert items == before
