"""Is nothing said of real sessions but what can be seen in them?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvagent.audit.transcript import NoTranscript
from tests.audit.rules.sightings import codes, findings, of_file, qwen

# Two compactions of pi, and a user message of ToolBench that its next prompt does not have.
KNOWN = {
    "pi_before-compaction.jsonl": [("KVA210", 2, [(174, 0, 0), (304, 0, 290)])],
    "toolbench_G3_13_openai_functions.json": [("KVA204", 1, [(4, 4, None)])],
}
# Larger ones are not encoded by a real tokenizer here: it takes long.
_SMALL = 450_000

DEMO = Path(__file__).parents[3] / "examples" / "transcripts" / "demo.jsonl"


def recordings(shared: Path) -> list[Path]:
    files = sorted((shared / "data").rglob("*"))
    return [each for each in files if each.is_file() and each.suffix not in (".md", ".jinja")]


@pytest.mark.parametrize("exact", [False, True])
def test_every_recording(exact: bool, shared: Path) -> None:
    read = 0
    for path in recordings(shared):
        if exact and path.stat().st_size > _SMALL:
            continue
        try:
            found = findings(of_file(path, qwen(shared) if exact else None))
        except NoTranscript:
            continue
        read += 1
        said = [
            (
                each.rule.code,
                each.count,
                [(spot.turn, spot.message, spot.character) for spot in each.spots],
            )
            for each in found
        ]
        assert said == KNOWN.get(path.name, []), path.name
    assert read > (25 if exact else 35)


def test_what_toolbench_left_out(shared: Path) -> None:
    path = shared / "data" / "toolbench_G3_13_openai_functions.json"
    prompts = json.loads(path.read_text())["answer_generation"]["train_messages"]
    old, new = prompts[2][:-1], prompts[3][:-1]
    assert old[:4] == new[:4]
    assert old[4]["role"] == "user"
    assert old[4] not in new
    assert old[5:] == new[4 : 4 + len(old[5:])]
    (found,) = findings(of_file(path))
    (spot,) = found.spots
    assert (spot.turn, spot.message) == (4, 4)
    assert old[4]["content"].startswith(spot.excerpt[:100])
    assert found.tokens > 0
    assert found.rule.severity == "error"


def test_requests_of_one_agent_in_one_log(shared: Path, tmp_path: Path) -> None:
    """OpenHands' own log of each call is a file by itself; here they are one log."""
    files = sorted((shared / "data" / "openhands_litellm_sonnet4").iterdir())
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(json.loads(each.read_text())) for each in files))
    assert codes(of_file(log)) == set()


_PROGRAM = """
import sys
from pathlib import Path
from tests.audit.rules.sightings import findings, of_file
print(findings(of_file(Path(sys.argv[1]))))
"""


def test_another_process_says_the_same() -> None:
    said = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(DEMO)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=DEMO.parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
    assert "KVA207" in said.pop()
