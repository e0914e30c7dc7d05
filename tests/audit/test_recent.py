"""Is what was used of late still there, and the rest bounded?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.recent import Recent


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.integers(1, 4))))
def test_what_is_held_is_right_and_bounded(steps: list[tuple[bool, int, int]]) -> None:
    recent: Recent[int, str] = Recent(8)
    sizes: dict[int, int] = {}
    latest: dict[int, str] = {}
    for number, (puts, key, size) in enumerate(steps):
        if puts:
            latest[key], sizes[key] = f"{key} at {number}", size
            recent.put(key, latest[key], size)
        else:
            assert recent.get(key) in (None, latest.get(key))
        held = recent.values()
        assert len(held) == len(set(held))
        assert sum(sizes[int(value.split()[0])] for value in held) <= 2 * 8


def test_what_is_used_stays() -> None:
    recent: Recent[int, int] = Recent(10)
    for number in range(100):
        recent.put(number, number)
        assert recent.get(0) == 0
    assert recent.get(50) is None
    assert recent.get(99) == 99


def test_one_value_larger_than_the_room_is_held() -> None:
    recent: Recent[str, int] = Recent(10)
    recent.put("large", 1, 50)
    assert recent.get("large") == 1
