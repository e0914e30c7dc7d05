"""Is a fault of many conversations told once, with where it is worst?"""

from __future__ import annotations

from kvagent.audit.report.page.faults import faults
from tests.audit.report.reports import CLOCK, DEAD_TOOL, finding, spot


def test_the_same_fault_is_told_once_with_the_worst_in_front() -> None:
    one = finding(CLOCK, spot(conversation=0, tokens=5), kv_bytes=50)
    two = finding(CLOCK, spot(conversation=1, tokens=9), kv_bytes=90)
    (fault,) = faults([one, two])
    assert (fault.worst, fault.others) == (two, [one])
    assert (fault.count, fault.tokens, fault.kv_bytes) == (2, 14, 140)


def test_what_is_said_otherwise_is_another_fault_and_severity_comes_before_tokens() -> None:
    small = finding(CLOCK, spot(tokens=5))
    larger = finding(CLOCK, spot(tokens=9), said="The date changes.")
    note = finding(DEAD_TOOL, spot(tokens=99))
    assert [fault.worst for fault in faults([note, small, larger])] == [larger, small, note]
