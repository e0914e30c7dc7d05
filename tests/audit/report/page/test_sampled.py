"""Is what matters among the requests that are shown of very many?"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.report.page.sampled import sampled
from kvagent.audit.session import Break, Row
from tests.audit.report.reports import row

_CALM = row(2)
_BROKEN = row(2, breaks=(Break("message", 0, "system_changed"),))
_FAILED = row(2, error="no")
_WASTED = row(2, wasted_tokens=5)


@given(
    st.lists(st.sampled_from([_CALM] * 9 + [_BROKEN, _FAILED, _WASTED]), max_size=90),
    st.integers(1, 40),
)
def test_there_are_as_many_as_asked_in_their_order(rows: list[Row], limit: int) -> None:
    rows = [
        row(
            each.number + at, breaks=each.breaks, error=each.error, wasted_tokens=each.wasted_tokens
        )
        for at, each in enumerate(rows)
    ]
    chosen = sampled(rows, limit)
    assert len(chosen) == min(limit, len(rows))
    numbers = [each.number for each in chosen]
    assert numbers == sorted(set(numbers))
    notable = [each for each in rows if each.breaks or each.error or each.wasted_tokens]
    if len(notable) <= limit:
        assert all(each in chosen for each in notable)


def test_of_many_calm_ones_every_so_manyth_is_there() -> None:
    numbers = [each.number for each in sampled([row(number) for number in range(1, 101)], 12)]
    assert (numbers[0], numbers[-1]) == (1, 100)
    assert max(b - a for a, b in pairwise(numbers)) <= 11
