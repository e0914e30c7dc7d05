"""Are the runs of τ-bench read as what its agent sent?"""

from __future__ import annotations

from pathlib import Path

from tests.audit.formats.files import (
    SESSION,
    items,
    requests,
    roles,
    unreadable,
)


def test_a_run(tmp_path: Path) -> None:
    runs = [{"task_id": 1, "trial": trial, "traj": SESSION} for trial in (0, 1)]
    for value in (runs, {"simulations": [{"id": "x", "task_id": 1, "messages": SESSION}] * 2}):
        found = requests(tmp_path, value)
        assert [roles(each) for each in found] == ["su", "suat"] * 2
        assert found[0].complete == {"system"}
    assert [each.conversation for each in requests(tmp_path, runs)] == ["1/0"] * 2 + ["1/1"] * 2
    found = requests(tmp_path, *runs)
    assert found[-1].place.line == 2
    broken = items(tmp_path, [*runs, {"task_id": 2, "traj": [7]}, 8])
    assert len(unreadable(broken)) == 2
