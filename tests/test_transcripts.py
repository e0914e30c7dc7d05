"""What becomes of the transcript that ships with the examples?"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from kvagent import PrefixBroken
from tests.wire import Wire, kept

TRANSCRIPT = Path(__file__).parent.parent / "examples" / "transcripts" / "demo.jsonl"


def test_every_request_goes_on_from_the_one_before() -> None:
    """The demo's agent has every bad habit; what goes out only grows."""
    wire = Wire()
    bodies = [json.loads(line)["body"] for line in TRANSCRIPT.read_text().splitlines()]
    sent = [json.loads(wire.engine.rewrite(json.dumps(body).encode())) for body in bodies]
    assert len(bodies) == 12
    assert not any(kept(a, b) for a, b in pairwise(bodies))
    assert all(kept(a, b) for a, b in pairwise(sent))
    assert not wire.of(PrefixBroken)
