"""Does an engine go on from just what another learned, and from nothing that cannot be read?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import learned
from kvagent.limits import Limits
from kvagent.meter import Meter
from kvagent.pricing import Timings


def taught() -> tuple[Meter, Limits]:
    meter, limits = Meter(()), Limits()
    for number in range(5):
        meter.calibrate(1_000, 1_100 + 7 * number)
    limits.resume({"windows": {"m": 4_096}, "counting": ["m"]})
    timings = Timings().with_turn(
        cached=100, prefilled=50, prefill_seconds=0.3, generated=9, decode_seconds=0.1
    )
    record = json.loads(learned.told(meter, limits))
    record["meter"]["prefill"] = [getattr(timings.prefill, name) for name in _SUMS]
    meter.resume(record["meter"])
    return meter, limits


_SUMS = ("points", "weight", "x", "y", "xx", "xy", "yy")


def test_what_is_told_is_what_is_known_afterwards() -> None:
    record = learned.told(*taught())
    meter, limits = Meter(()), Limits()
    assert learned.told(meter, limits) != record
    learned.resume(record, meter, limits)
    assert learned.told(meter, limits) == record
    assert limits.window("m", 8_192) == 4_096


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: "no JSON",
        lambda record: "[]",
        lambda record: json.dumps({**record, "meter": {}}),
        lambda record: json.dumps({**record, "meter": {**record["meter"], "prefill": ["x"] * 7}}),
        lambda record: json.dumps({**record, "meter": {**record["meter"], "decode": [1]}}),
        lambda record: json.dumps({**record, "meter": {**record["meter"], "scale": None}}),
    ],
)
def test_a_damaged_record_teaches_nothing(damage: Any) -> None:
    record = json.loads(learned.told(*taught()))
    meter, limits = Meter(()), Limits()
    before = learned.told(meter, limits)
    learned.resume(damage(record), meter, limits)
    assert learned.told(meter, limits) == before
