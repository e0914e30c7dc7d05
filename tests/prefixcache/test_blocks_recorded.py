"""Would a simulator that breaks one of vLLM's rules be noticed?

The recordings are of a real server. The simulator says what it said; each mutant, which breaks one rule, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from kvagent.prefixcache.blocks import BlockCache, Running
from kvagent.prefixcache.layers import Layers
from kvagent.prefixcache.pool import Content, Pool
from tests.prefixcache.recording import FOLDER, Recording, predicted

RECORDINGS = {path.stem: Recording.load(path) for path in sorted(FOLDER.glob("vllm*.json"))}
SCENARIOS = [(name, one) for name, found in RECORDINGS.items() for one in found.scenarios]


def cache_of(recording: Recording, **changes: Any) -> BlockCache:
    return BlockCache(**{**recording.settings, **changes})


@pytest.mark.parametrize(("name", "scenario"), SCENARIOS, ids=[" ".join(one) for one in SCENARIOS])
def test_the_server_said_what_is_predicted(name: str, scenario: str) -> None:
    recording = RECORDINGS[name]
    exchanges = recording.scenarios[scenario]
    assert predicted(cache_of(recording), exchanges) == [one.cached for one in exchanges]


def noticed(**changes: Any) -> set[str]:
    """The recordings in which a simulator with these settings is wrong somewhere."""
    return {
        name
        for name, recording in RECORDINGS.items()
        for exchanges in recording.scenarios.values()
        if predicted(cache_of(recording, **changes), exchanges) != [one.cached for one in exchanges]
    }


Patch = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, Patch] = {}


def mutant(name: str) -> Callable[[Patch], Patch]:
    def keep(patch: Patch) -> Patch:
        MUTANTS[name] = patch
        return patch

    return keep


@mutant("every block can be used")
def _(patch: pytest.MonkeyPatch) -> None:
    make = Pool.__init__
    patch.setattr(Pool, "__init__", lambda self, blocks: make(self, blocks + 1))


@mutant("two blocks are never used")
def _(patch: pytest.MonkeyPatch) -> None:
    make = Pool.__init__
    patch.setattr(Pool, "__init__", lambda self, blocks: make(self, blocks - 1))


@mutant("nothing is ever lost")
def _(patch: pytest.MonkeyPatch) -> None:
    make = Pool.__init__
    patch.setattr(Pool, "__init__", lambda self, blocks: make(self, None))


@mutant("the last token of a prompt need not be computed")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        BlockCache, "_usable_blocks", lambda self, request: request.prompt_tokens // self.block_size
    )


@mutant("the last token of an answer is computed as well")
def _(patch: pytest.MonkeyPatch) -> None:
    finish = Running.finish
    patch.setattr(
        Running,
        "finish",
        lambda self, generated=(), **options: finish(self, [*generated, 0], **options),
    )


@mutant("generated tokens are not kept")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BlockCache, "_decode", lambda *_: None)


@mutant("the head of a request is freed first")
def _(patch: pytest.MonkeyPatch) -> None:
    def release(self: BlockCache, request: Running) -> None:
        for table in request.tables:
            self._pool.free(table)
        request.tables = []

    patch.setattr(BlockCache, "_release", release)


@mutant("blocks without content wait like the others")
def _(patch: pytest.MonkeyPatch) -> None:
    free = Pool.free

    def at_the_end(self: Pool, blocks: Iterable[int]) -> None:
        free(self, blocks)
        # As if they had content that nobody asks for.
        while self._empty:
            self._queue[self._empty.pop()] = None

    patch.setattr(Pool, "free", at_the_end)


@mutant("a hit does not make its blocks young again")
def _(patch: pytest.MonkeyPatch) -> None:
    def touch(self: Pool, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._users[block] += 1

    def free(self: Pool, blocks: Iterable[int]) -> None:
        for block in filter(None, blocks):
            self._users[block] -= 1
            if self._held[block] is None:
                self._empty.append(block)
            elif not self._users[block]:
                self._queue.setdefault(block)

    patch.setattr(Pool, "touch", touch)
    patch.setattr(Pool, "free", free)


@mutant("the block that was used last is taken first")
def _(patch: pytest.MonkeyPatch) -> None:
    take = Pool.take

    def newest(self: Pool, count: int) -> list[int]:
        for block in reversed(list(self._queue)):
            self._queue.move_to_end(block)
        return take(self, count)

    patch.setattr(Pool, "take", newest)


@mutant("of equal blocks the newest is found")
def _(patch: pytest.MonkeyPatch) -> None:
    def add(self: Content, hash: int, block: int) -> None:
        if hash in self._first:
            self._more.setdefault(hash, []).insert(0, self._first[hash])
        self._first[hash] = block

    patch.setattr(Content, "add", add)


@mutant("equal blocks are one")
def _(patch: pytest.MonkeyPatch) -> None:
    offer = Pool.offer

    def once(self: Pool, content: Content, hashes: Sequence[int], blocks: Sequence[int]) -> None:
        new = [(h, b) for h, b in zip(hashes, blocks, strict=True) if content.get(h) is None]
        offer(self, content, [h for h, _ in new], [b for _, b in new])

    patch.setattr(Pool, "offer", once)


@mutant("a block's hash knows nothing of what goes before")
def _(patch: pytest.MonkeyPatch) -> None:
    def chain(self: BlockCache, data: bytes, before: int) -> list[int]:
        size = 4 * self.block_size
        return [hash(data[at : at + size]) for at in range(0, len(data) - size + 1, size)]

    patch.setattr(BlockCache, "_chain", chain)


@mutant("tenants share what they have")
def _(patch: pytest.MonkeyPatch) -> None:
    begin = BlockCache.begin
    patch.setattr(
        BlockCache,
        "begin",
        lambda self, prompt, *, salt, lora, read: begin(self, prompt, lora=lora, read=read),
    )


@mutant("adapters share what they have")
def _(patch: pytest.MonkeyPatch) -> None:
    begin = BlockCache.begin
    patch.setattr(
        BlockCache,
        "begin",
        lambda self, prompt, *, salt, lora, read: begin(self, prompt, salt=salt, read=read),
    )


@mutant("a request for the prompt's logprobs reads the cache")
def _(patch: pytest.MonkeyPatch) -> None:
    begin = BlockCache.begin
    patch.setattr(
        BlockCache,
        "begin",
        lambda self, prompt, *, salt, lora, read: begin(self, prompt, salt=salt, lora=lora),
    )


@mutant("a request for the prompt's logprobs leaves nothing behind")
def _(patch: pytest.MonkeyPatch) -> None:
    offer = BlockCache._offer
    patch.setattr(
        BlockCache, "_offer", lambda self, request: offer(self, request) if request.read else None
    )


@mutant("a part of a block is shared as well")
def _(patch: pytest.MonkeyPatch) -> None:
    begin = BlockCache.begin

    def to_the_token(self: BlockCache, *args: Any, **options: Any) -> Running:
        running = begin(self, *args, **options)
        if running.hit and running.hit.loss == "block":
            shared = running.hit.shared_tokens
            running.hit = type(running.hit)(running.prompt_tokens, shared, shared)
        return running

    patch.setattr(BlockCache, "begin", to_the_token)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert "vllm" in noticed()


WINDOW_MUTANTS: dict[str, Patch] = {}


def window_mutant(name: str) -> Callable[[Patch], Patch]:
    def keep(patch: Patch) -> Patch:
        WINDOW_MUTANTS[name] = patch
        return patch

    return keep


@window_mutant("a window needs one block less")
def _(patch: pytest.MonkeyPatch) -> None:
    make = Layers.__init__

    def less(self: Layers, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._needed -= self.window is not None

    patch.setattr(Layers, "__init__", less)


@window_mutant("a window needs one block more")
def _(patch: pytest.MonkeyPatch) -> None:
    make = Layers.__init__

    def more(self: Layers, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._needed += self.window is not None

    patch.setattr(Layers, "__init__", more)


@window_mutant("every block of a window is kept")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Layers, "left_out", lambda *_: ())


@window_mutant("only the end of a prompt is kept, never where prompts part")
def _(patch: pytest.MonkeyPatch) -> None:
    left_out = Layers.left_out
    patch.setattr(
        Layers,
        "left_out",
        lambda self, start, end, boundaries: left_out(self, start, end, boundaries[:1]),
    )


@window_mutant("only where prompts part is kept, never the end of one")
def _(patch: pytest.MonkeyPatch) -> None:
    left_out = Layers.left_out
    patch.setattr(
        Layers,
        "left_out",
        lambda self, start, end, boundaries: left_out(self, start, end, boundaries[1:]),
    )


@window_mutant("blocks are kept before the prompt's end, not before its last token")
def _(patch: pytest.MonkeyPatch) -> None:
    left_out = Layers.left_out
    patch.setattr(
        Layers,
        "left_out",
        lambda self, start, end, boundaries: left_out(
            self, start, end, [boundaries[0] + 1, boundaries[1]]
        ),
    )


@window_mutant("a window gives no block back before the request ends")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BlockCache, "_drop", lambda *_: None)


@pytest.mark.parametrize("name", WINDOW_MUTANTS)
def test_a_broken_rule_of_windows_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WINDOW_MUTANTS[name](monkeypatch)
    assert noticed() == {"vllm_window"}


@pytest.mark.parametrize(
    "changes",
    [
        {"block_size": 16},
        {"block_size": 64},
        {"max_model_len": None},
        {"max_model_len": 500},
        {"retention": None, "only": "vllm_window"},
        {"retention": 128, "only": "vllm_window"},
        {"windows": (None, 300), "only": "vllm_window"},
        {"windows": (None, None), "only": "vllm_window"},
        {"windows": (300,), "only": "vllm_window"},
        {"windows": (332, None), "only": "vllm_window"},
        {"max_num_batched_tokens": 2048, "only": "vllm_window"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_noticed(changes: dict[str, Any]) -> None:
    settings = {key: value for key, value in changes.items() if key != "only"}
    assert changes.get("only", "vllm") in noticed(**settings)
