"""What do llama.cpp's slots keep, as its rules say?"""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.prefixcache import PromptTooLong
from kvagent.prefixcache.cells import Cells, window_cells
from kvagent.prefixcache.checkpoints import Rules
from kvagent.prefixcache.memory import Layout
from kvagent.prefixcache.seen import Seen, common_prefix, tokens
from kvagent.prefixcache.slots import MIB, Busy, SlotCache

LAYERS = Layout(row=2048, full=2)
"""Some 500 tokens a MiB."""


def ids(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


def ask(
    cache: SlotCache, prompt: list[int], answer: tuple[int, ...] = (-1,), **options: int
) -> int:
    """The cached tokens of a request that ends at once."""
    running = cache.begin(prompt)
    running.finish(answer)
    return running.hit.cached_tokens


def test_a_growing_conversation_computes_only_what_is_new() -> None:
    cache = SlotCache()
    prompt = ids(0, 100)
    assert ask(cache, prompt, (-1, -2, -3)) == 0
    grown = [*prompt, -1, -2, -3, *ids(500, 20)]
    assert ask(cache, grown) == 102, "the last generated token was never computed"


def test_a_hit_says_what_an_endless_cache_had_given() -> None:
    cache = SlotCache(host_cache=0)
    ask(cache, ids(0, 100))
    ask(cache, ids(1000, 100))
    hit = cache.begin(ids(0, 100)).hit
    assert (hit.prompt_tokens, hit.cached_tokens, hit.shared_tokens) == (100, 0, 100)
    assert hit.loss == "slot"


def test_the_same_again_computes_one_token() -> None:
    cache = SlotCache()
    ask(cache, ids(0, 64))
    hit = cache.begin(ids(0, 64)).hit
    assert (hit.cached_tokens, hit.loss) == (63, "whole_prompt")


def test_the_host_brings_back_what_a_slot_lost() -> None:
    cache = SlotCache(layout=LAYERS)
    ask(cache, ids(0, 100))
    ask(cache, ids(1000, 100))
    assert ask(cache, ids(0, 101)) == 100


def test_a_host_cache_that_is_too_small_is_of_no_use() -> None:
    cache = SlotCache(layout=LAYERS, host_cache=1 * MIB)
    ask(cache, ids(0, 600))
    ask(cache, ids(1000, 600))
    running = cache.begin(ids(0, 601))
    assert running.hit.cached_tokens == 0
    assert running.hit.loss == "evicted"


def test_a_short_sub_agent_takes_the_tail_of_a_short_main_session_only() -> None:
    """It shares 40 tokens of its 60: more than a tenth, so it gets the slot of the main session."""
    short = SlotCache(layout=LAYERS)
    ask(short, ids(0, 70))
    ask(short, [*ids(0, 40), *ids(500, 20)])
    assert ask(short, ids(0, 80)) == 40, "more than half was kept, so nothing was saved"
    long = SlotCache(layout=LAYERS)
    ask(long, ids(0, 700))
    ask(long, [*ids(0, 40), *ids(500, 20)])
    assert ask(long, ids(0, 710)) == 700


def test_two_conversations_find_their_slots() -> None:
    cache = SlotCache(2, host_cache=0)
    for turn in range(1, 5):
        for start in (0, 10_000):
            assert ask(cache, ids(start, 100 * turn)) == 100 * (turn - 1)


def test_a_busy_slot_is_not_chosen() -> None:
    cache = SlotCache(2, host_cache=0)
    first = cache.begin(ids(0, 100))
    second = cache.begin(ids(0, 100))
    assert {first.slot, second.slot} == {0, 1}
    assert second.hit.cached_tokens == 0
    assert second.hit.loss == "slot"
    with pytest.raises(Busy):
        cache.begin(ids(0, 100))
    first.finish((-1, -2))
    with pytest.raises(Busy):
        cache.begin(ids(0, 100), id_slot=second.slot)
    assert cache.begin([*ids(0, 100), -1, 7]).hit.cached_tokens == 101


def test_a_pinned_request_goes_where_it_says() -> None:
    cache = SlotCache(3, host_cache=0)
    assert [cache.begin(ids(9, 9), id_slot=slot).slot for slot in (1, 0, 5)] == [1, 0, 2]


def test_a_prompt_beyond_the_window_is_refused() -> None:
    cache = SlotCache(4, 8192)
    assert cache.window == 2048
    ask(cache, ids(0, 2047))
    with pytest.raises(PromptTooLong, match="2048 tokens do not fit"):
        cache.begin(ids(0, 2048))
    assert SlotCache(4, 8192, unified=True).window == 8192
    assert SlotCache(3, 8192).window == 2816, "rounded up to 256"
    assert SlotCache(1, 8192, n_ctx_train=4096).window == 4096


def test_a_sliding_window_resumes_at_a_checkpoint() -> None:
    turn = -5
    layout = Layout(row=64, full=1, window=128, window_row=320, sliding=5)
    cache = SlotCache(layout=layout, user_marker=[turn], checkpoints=Rules(n_ubatch=128))
    prompt = [*ids(0, 600), turn, *ids(1000, 400)]
    ask(cache, prompt)
    edited = [*prompt[:650], *ids(2000, 60)]
    assert ask(cache, edited) == 599, "the last token before the last user turn"
    running = cache.begin([*prompt[:300], *ids(3000, 60)])
    assert running.hit.cached_tokens == 0
    assert running.hit.loss == "checkpoint"


def test_recurrent_layers_roll_back_to_checkpoints_only() -> None:
    cache = SlotCache(layout=Layout(recurrent=2, state=1024))
    ask(cache, ids(0, 1000))
    assert ask(cache, ids(0, 1100)) == 1000, "growing needs none"
    assert ask(cache, [*ids(0, 1099), -1, -2]) == 1096, "four tokens before the end"


def test_a_unified_memory_clears_idle_slots() -> None:
    split = SlotCache(2, 4096, host_cache=1)
    unified = SlotCache(2, 4096, host_cache=1, unified=True)
    for cache in (split, unified):
        ask(cache, ids(0, 100))
        ask(cache, ids(1000, 100))
    assert ask(split, ids(0, 101)) == 100
    assert ask(unified, ids(0, 101)) == 0, "nor was there room to save it"


def test_without_a_host_cache_idle_slots_stay_until_there_is_no_room() -> None:
    cache = SlotCache(2, 1024, host_cache=0, unified=True)
    ask(cache, ids(0, 400))
    ask(cache, ids(1000, 400))
    assert ask(cache, ids(0, 401)) == 400
    ask(cache, ids(0, 900))
    assert ask(cache, ids(1000, 401)) == 0


prompts = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 60)).map(lambda x: [x[0]] * 3 + [7] * x[1]),
    min_size=1,
    max_size=12,
)


def naive(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(prompts)
def test_one_slot_without_a_host_is_the_prefix_of_the_last_request(asked: list[list[int]]) -> None:
    cache = SlotCache(host_cache=0)
    held: list[int] = []
    for prompt in asked:
        assert ask(cache, prompt, (9, 8)) == min(naive(held, prompt), len(prompt) - 1)
        held = [*prompt, 9]


@given(
    prompts,
    st.integers(1, 4),
    st.sampled_from([0, 1000, 100_000, None]),
    st.booleans(),
    st.sampled_from([LAYERS, Layout(64, 1, 16, 64, 2), Layout(recurrent=1, state=64)]),
)
def test_no_cache_gives_more_than_was_computed(
    asked: list[list[int]], slots: int, host: int | None, unified: bool, layout: Layout
) -> None:
    cache = SlotCache(slots, 1024, host_cache=host, unified=unified, layout=layout)
    for prompt in asked:
        running = cache.begin(prompt)
        hit = running.hit
        assert 0 <= hit.cached_tokens <= min(hit.shared_tokens, len(prompt) - 1)
        assert bool(hit.loss) == (hit.cached_tokens < hit.shared_tokens)
        running.finish((9, 8, 7))


sequences = st.lists(st.lists(st.integers(0, 2), max_size=30), max_size=12)


@given(sequences, st.lists(st.integers(0, 2), max_size=30))
def test_the_longest_prefix_seen(before: list[list[int]], new: list[int]) -> None:
    seen = Seen()
    for sequence in before:
        seen.add(tokens(sequence))
    shared = [naive(sequence, new) for sequence in before]
    assert seen.longest(tokens(new)) == max(shared, default=0)
    assert [common_prefix(tokens(sequence), tokens(new)) for sequence in before] == shared


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 90), st.integers(0, 60)), max_size=20),
    st.booleans(),
)
def test_what_is_left_of_a_sequence_has_no_holes_and_covers_its_window(
    steps: list[tuple[int, int, int]], unified: bool
) -> None:
    window, batch = 24, 32
    size = window_cells(10_000, window, 3 if unified else 1, batch)
    cells = Cells(size, 1 if unified else 3, window)
    ends = [0, 0, 0]
    for sequence, count, back in steps:
        first = cells.first(sequence)
        start = max(ends[sequence] - back, first, 0)
        cells.keep(sequence, start)
        for at in range(start, start + count, batch):
            assert cells.place(sequence, range(at, min(at + batch, start + count)))
        ends[sequence] = start + count
        for other in range(3):
            if ends[other]:
                held = sorted(cells.saved(other))
                assert held == list(range(held[0], ends[other]))
                assert len(held) <= window
