"""What does vLLM's cache give, rule by rule?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.prefixcache import PromptTooLong
from kvagent.prefixcache.blocks import BlockCache, Running
from kvagent.prefixcache.hit import Hit


def asked(cache: BlockCache, prompt: list[int], answer: Sequence[int] = (), **options: Any) -> Hit:
    running = cache.begin(prompt, **options)
    running.finish(answer)
    assert running.hit
    return running.hit


def run(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def test_only_full_blocks_are_shared() -> None:
    cache = BlockCache(16)
    asked(cache, run(0, 40))
    assert asked(cache, run(0, 40) + run(900, 60)) == Hit(100, 32, 40, "block")


def test_the_last_token_is_always_computed() -> None:
    cache = BlockCache(16)
    asked(cache, run(0, 48))
    assert asked(cache, run(0, 48)) == Hit(48, 32, 48, "whole_prompt")
    assert asked(cache, run(0, 33)) == Hit(33, 32, 33, "whole_prompt")
    assert asked(cache, run(0, 49)) == Hit(49, 48, 48)


def test_an_answer_is_cached_but_for_its_last_token() -> None:
    cache = BlockCache(16)
    asked(cache, run(0, 30), run(500, 3))
    assert asked(cache, [*run(0, 30), *run(500, 3), 7]) == Hit(34, 32, 32)
    cache.reset()
    asked(cache, run(0, 30), run(500, 2))
    assert asked(cache, [*run(0, 30), *run(500, 2), 7]) == Hit(33, 16, 31, "block")


def test_one_block_is_never_used() -> None:
    assert asked(BlockCache(16, 4), run(0, 48)).cached_tokens == 0
    running = BlockCache(16, 4).begin(run(0, 49))
    assert running.hit is None  # it waits for a fourth block for ever


def test_what_was_pushed_out_is_said() -> None:
    cache = BlockCache(16, 5)
    asked(cache, run(0, 48))
    asked(cache, run(100, 32))
    # The end of the oldest request went first.
    assert asked(cache, [*run(0, 48), 1]) == Hit(49, 32, 48, "evicted")


def test_tenants_and_adapters_share_nothing() -> None:
    cache = BlockCache(16)
    prompt = run(0, 40)
    options: list[dict[str, Any]] = [
        {},
        {"salt": "a"},
        {"salt": "b"},
        {"lora": "a"},
        {"lora": "a", "salt": "a"},
    ]
    assert [asked(cache, prompt, **each).cached_tokens for each in options] == [0] * 5
    assert [asked(cache, prompt, **each).cached_tokens for each in options] == [32] * 5


def test_a_request_may_leave_the_cache_unread() -> None:
    cache = BlockCache(16)
    asked(cache, run(0, 40), read=False)
    assert asked(cache, run(0, 40), read=False) == Hit(40, 0, 40, "off")
    assert asked(cache, run(0, 40)).cached_tokens == 32


def test_a_prompt_that_fills_the_window_is_refused() -> None:
    cache = BlockCache(16, max_model_len=64)
    asked(cache, run(0, 63))
    with pytest.raises(PromptTooLong, match="64 prompt tokens leave no room"):
        cache.begin(run(0, 64))
    with pytest.raises(ValueError, match="one token or more"):
        cache.begin([])


@pytest.mark.parametrize("settings", [(0, 4), (16, 1)])
def test_settings_that_no_server_has(settings: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"block"):
        BlockCache(*settings)


def test_running_requests_hold_their_blocks() -> None:
    cache = BlockCache(16, 7)
    first = cache.begin(run(0, 48))
    asked(cache, run(100, 48))
    asked(cache, run(200, 48))  # in the place of the second one
    first.finish()
    assert asked(cache, run(0, 49)).cached_tokens == 48


def test_a_prompt_is_shared_from_the_moment_it_starts() -> None:
    cache = BlockCache(16)
    first = cache.begin(run(0, 48))
    second = cache.begin(run(0, 49))
    assert second.hit == Hit(49, 48, 48)
    first.finish()
    second.finish()


def test_requests_wait_for_room_in_their_order() -> None:
    cache = BlockCache(16, 5)
    first = cache.begin(run(0, 48))
    second, third = cache.begin(run(100, 48)), cache.begin(run(200, 16))
    assert [second.hit, third.hit] == [None, None]
    first.finish()
    assert [second.hit, third.hit] == [Hit(48, 0, 0), Hit(16, 0, 0)]


def test_as_many_requests_run_as_the_server_lets() -> None:
    cache = BlockCache(16, max_num_seqs=1)
    first, second = cache.begin(run(0, 48)), cache.begin(run(0, 48))
    assert [second.hit] == [None]
    first.finish([1, 2])
    assert second.hit == Hit(48, 32, 48, "whole_prompt")


def test_the_newest_request_makes_room_and_starts_again() -> None:
    cache = BlockCache(16, 7)
    first, second = cache.begin(run(0, 48)), cache.begin(run(100, 48))
    first.finish(run(900, 33))  # needs two blocks more
    second.finish([1])
    assert second.hit == Hit(48, 0, 0)
    # The second one came back when the first had ended.
    assert asked(cache, run(100, 49)).cached_tokens == 48


def test_a_request_that_this_cache_saw_waiting_may_have_ended() -> None:
    cache = BlockCache(16, 5)
    first, second = cache.begin(run(0, 48)), cache.begin(run(100, 48))
    second.finish([1])
    assert second.hit == Hit(48, 0, 0)
    first.finish([1])
    assert first.hit == Hit(48, 0, 0)


def test_a_window_resumes_where_a_prompt_ended_and_not_before() -> None:
    cache = BlockCache(16, windows=(40, None))
    asked(cache, run(0, 160))
    assert asked(cache, [*run(0, 160), 1]) == Hit(161, 144, 160, "checkpoint")
    assert asked(cache, [*run(0, 80), 1]) == Hit(81, 0, 80, "checkpoint")
    # Where both parted, the second time has left what a third one needs.
    assert asked(cache, [*run(0, 80), 2]) == Hit(81, 80, 80)


def test_layers_that_keep_everything_resume_anywhere() -> None:
    cache = BlockCache(16, windows=(40, None), retention=None)
    asked(cache, run(0, 160))
    assert asked(cache, [*run(0, 80), 1]) == Hit(81, 80, 80)


def test_a_server_that_schedules_ahead_takes_a_block_for_nothing() -> None:
    def kept(*, asynchronous: bool, stopped: bool) -> int:
        cache = BlockCache(16, 5, asynchronous=asynchronous)
        asked(cache, run(0, 48))
        running = cache.begin(run(100, 15))
        running.finish([1, 2], stopped=stopped)
        return asked(cache, run(0, 49)).cached_tokens

    assert kept(asynchronous=False, stopped=True) == 48
    assert kept(asynchronous=True, stopped=False) == 48
    assert kept(asynchronous=True, stopped=True) == 32


def test_hashes_of_a_trace_are_blocks_too() -> None:
    cache = BlockCache(512, 10)
    cache.begin_hashed([1, 2, 3], 1500).finish()
    running = cache.begin_hashed([1, 2, 4, 5], 2048)
    assert running.hit == Hit(2048, 1024, 1024)


rule = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

FLAGS = st.booleans()
TOKENS = st.lists(st.integers(0, 2), max_size=30)


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Prompts that share a lot, and answers."""
    found: list[tuple[list[int], list[int]]] = []
    history: list[int] = []
    for _ in range(draw(st.integers(1, 12))):
        prompt = history[: draw(st.integers(0, len(history)))] + draw(TOKENS)
        found.append((prompt or [0], draw(TOKENS)))
        history = [*found[-1][0], *found[-1][1]]
    return found


def by_definition(earlier: list[list[int]], prompt: list[int]) -> int:
    """The longest prefix shared with any of them."""
    longest = 0
    for tokens in earlier:
        same = 0
        while same < min(len(tokens), len(prompt)) and tokens[same] == prompt[same]:
            same += 1
        longest = max(longest, same)
    return longest


@rule
@given(traffic(), st.integers(1, 7))
def test_an_endless_cache_gives_the_full_blocks_of_what_is_shared(
    requests: list[tuple[list[int], list[int]]], size: int
) -> None:
    cache = BlockCache(size)
    earlier: list[list[int]] = []
    for prompt, answer in requests:
        hit = asked(cache, prompt, answer)
        assert hit.shared_tokens == by_definition(earlier, prompt)
        assert hit.cached_tokens == min(hit.shared_tokens, len(prompt) - 1) // size * size
        earlier.append([*prompt, *answer[:-1]])


@rule
@given(traffic(), st.integers(1, 7), st.integers(12, 80))
def test_a_small_cache_gives_no_more_than_an_endless_one_and_says_why(
    requests: list[tuple[list[int], list[int]]], size: int, blocks: int
) -> None:
    cache, endless = BlockCache(size, blocks), BlockCache(size, exact=False)
    for prompt, answer in requests:
        running = cache.begin(prompt)
        running.finish(answer)
        if running.hit is None:
            assert len(prompt) > size * (blocks - 1)
            continue
        most = asked(endless, prompt, answer).cached_tokens
        assert running.hit.cached_tokens <= most
        assert (running.hit.loss == "") == (running.hit.cached_tokens == running.hit.shared_tokens)
        if running.hit.loss != "evicted":
            assert running.hit.cached_tokens == most


@rule
@given(traffic(), st.data())
def test_every_block_comes_back(
    requests: list[tuple[list[int], list[int]]], data: st.DataObject
) -> None:
    blocks = data.draw(st.integers(8, 40))
    windows = data.draw(st.sampled_from([(None,), (5,), (5, None), (None, 9, 9)]))
    ahead = data.draw(FLAGS)
    cache = BlockCache(3, blocks, windows=windows, asynchronous=ahead, max_num_batched_tokens=8)
    live: list[tuple[Running, list[int]]] = []
    for prompt, answer in requests:
        live.append((cache.begin(prompt), answer))
        while data.draw(FLAGS) and live:
            running, generated = live.pop(data.draw(st.integers(0, len(live) - 1)))
            running.extend(generated[:2])
            running.finish(generated[2:], stopped=data.draw(FLAGS))
    for running, generated in live:
        running.finish(generated)
    assert cache._pool.has(blocks - 1)
    assert not cache._pool.has(blocks)


@rule
@given(traffic(), st.integers(1, 5))
def test_a_stream_ends_as_a_whole_answer_does(
    requests: list[tuple[list[int], list[int]]], size: int
) -> None:
    whole, stream = BlockCache(size, 61), BlockCache(size, 61)
    for prompt, answer in requests:
        if len(prompt) + len(answer) > 60 * size:
            break  # no server lets a request be longer than its cache
        one, other = whole.begin(prompt), stream.begin(prompt)
        one.finish(answer)
        for token in answer:
            other.extend([token])
        other.finish()
        assert one.hit == other.hit
