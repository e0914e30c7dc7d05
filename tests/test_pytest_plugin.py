"""Can an agent's own tests ask for the audit, and does it cost others nothing?"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

# Where kvagent was installed before it had a plugin, pytest must be told of it.
INSTALLED = any(each.value == "kvagent.pytest_plugin" for each in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "kvagent.pytest_plugin")

AGENT = """
from __future__ import annotations

import pytest

from kvagent.testing import Recorder

STEPS = "Read what you are asked about before you answer. " * 40


def recorded(*, clock: bool) -> Recorder:
    recorder, messages = Recorder(), []
    for turn in range(3):
        now = f"Current time: 2026-01-02 03:04:{turn:02}." if clock else ""
        messages.append({"role": "user", "content": f"Question {turn}: {STEPS}"})
        system = {"role": "system", "content": f"{now} {STEPS}"}
        recorder.record({"model": "m", "messages": [system, *messages]})
        messages.append({"role": "assistant", "content": "Yes."})
    return recorder
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return pytester


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(AGENT + tests)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *PLUGIN, *options)


def test_an_agent_that_keeps_its_prefix_passes(project: pytest.Pytester) -> None:
    tests = """
def test_agent(kvagent_audit):
    report = kvagent_audit(recorded(clock=False), min_hit_rate="40%")
    assert report.sessions[0].requests == 3
"""
    run(project, tests).assert_outcomes(passed=1)


def test_one_that_does_not_fails_with_what_to_do(project: pytest.Pytester) -> None:
    tests = """
def test_agent(kvagent_audit):
    kvagent_audit(recorded(clock=True))
"""
    result = run(project, tests)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *AssertionError: fail-on error: 1 finding: KVA101 clock-in-head.",
            "E *KVA101 clock-in-head (error): *",
            "E *requests.jsonl:2 * turn 2 · message 0 · content · character *",
            "E * before: *03:04:00*",
            "E *  after: *03:04:01*",
            "E * Fix: *",
            "E *All of it: kvagent audit *requests.jsonl",
        ]
    )
    result.stdout.no_fnmatch_line("*hygiene.py*")
    result.stdout.no_fnmatch_line("*def audit(*")


def test_settings_are_those_of_the_project(project: pytest.Pytester) -> None:
    project.makepyprojecttoml('[tool.kvagent.audit]\nignore = ["KVA101"]\n')
    tests = """
def test_agent(kvagent_audit):
    kvagent_audit(recorded(clock=True))

def test_given(kvagent_audit):
    with pytest.raises(AssertionError):
        kvagent_audit(recorded(clock=True), select=["KVA101"], ignore=[])
"""
    run(project, tests, f"--rootdir={project.path}").assert_outcomes(passed=2)


def test_it_is_among_the_fixtures(project: pytest.Pytester) -> None:
    result = run(project, "", "--fixtures")
    result.stdout.fnmatch_lines(
        ["kvagent_audit*", "*Audit what an agent sent: fails the test unless it keeps its prefix.*"]
    )


def test_a_run_that_does_not_use_it_loads_nothing_of_the_audit(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import sys

def test_nothing():
    loaded = {name for name in sys.modules if name.startswith("kvagent.audit")}
    assert not loaded
    assert "jinja2" not in sys.modules
"""
    )
    result = project.runpytest_subprocess("-p", "no:cacheprovider", *PLUGIN)
    result.assert_outcomes(passed=1)


def test_importing_it_adds_nothing_to_kvagent_itself() -> None:
    script = (
        "import sys, kvagent; before = set(sys.modules); import kvagent.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['kvagent.pytest_plugin']"
