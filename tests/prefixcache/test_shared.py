"""Is what two prompts share found, however it is looked for?"""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from kvagent.prefixcache.computed import Computed, behind, chained, packed
from kvagent.prefixcache.seen import Seen, begins, common_prefix, tokens

IDS = st.lists(st.integers(0, 2), max_size=40) | st.lists(st.integers(0, 2**31 - 1), max_size=9)


def plainly(one: list[int], other: list[int]) -> int:
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


@given(IDS, IDS, st.data())
def test_common_prefix(one: list[int], other: list[int], data: st.DataObject) -> None:
    shared = plainly(one, other)
    known = data.draw(st.integers(0, shared))
    assert common_prefix(tokens(one), tokens(other), known) == shared
    assert begins(tokens(one), tokens(other)) == (shared == len(one))


@given(IDS)
def test_ids_of_any_kind_are_the_same_tokens(ids: list[int]) -> None:
    assert tokens(ids) == tokens(tuple(ids)) == tokens(array("I", ids)) == tokens(array("q", ids))
    assert packed(ids) == packed(array("I", ids)) == packed(array("q", ids)) == packed(tokens(ids))


@given(st.lists(IDS, max_size=6), IDS, st.integers(1, 5))
def test_all_that_was_computed(prompts: list[list[int]], new: list[int], size: int) -> None:
    """To the token, as by comparing with every prompt there was."""
    computed, seen = Computed(size), Seen()
    for prompt in prompts:
        data = packed(prompt)
        computed.add(data, chained(data, size, 7), 7)
        seen.add(tokens(prompt))
    most = max((plainly(prompt, new) for prompt in prompts), default=0)
    data = packed(new)
    assert computed.shared(data, chained(data, size, 7), 7) == most
    assert seen.longest(tokens(new)) == most


@given(IDS, st.integers(1, 5), st.data())
def test_a_chain_goes_on_where_it_ended(ids: list[int], size: int, data: st.DataObject) -> None:
    known = data.draw(st.integers(0, len(ids) // size))
    whole = chained(packed(ids), size, 7)
    rest = chained(behind(packed(ids), known * size), size, whole[known - 1] if known else 7)
    assert whole == [*whole[:known], *rest]
