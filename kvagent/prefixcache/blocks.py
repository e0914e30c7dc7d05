"""What will vLLM take from its prefix cache for this prompt?

A simulator of the block cache of vLLM 0.32: only full blocks are shared, each known by a hash that
chains all tokens before it; a prompt's last token is always computed; what requests leave behind
stays until its blocks are needed, the end of the oldest request first. Requests may run one after
the other, in turn, or at once: each holds its blocks from ``begin`` to ``finish``, and the cache
sees these two in the order in which they are called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat

from kvagent.prefixcache.computed import Computed, behind, chained, packed
from kvagent.prefixcache.hit import Hit, Loss, PromptTooLong
from kvagent.prefixcache.layers import Layers
from kvagent.prefixcache.pool import Content, Pool, Table


class Running:
    """A request between ``begin`` and ``finish``."""

    __slots__ = (
        "_cache",
        "boundaries",
        "computed",
        "finished",
        "generated",
        "hashes",
        "hit",
        "prompt_tokens",
        "read",
        "rest",
        "root",
        "stored",
        "tables",
    )

    def __init__(
        self,
        cache: BlockCache,
        hashes: list[int],
        rest: bytes | None,
        *,
        root: int = 0,
        tokens: int,
        read: bool = True,
    ) -> None:
        self.hit: Hit | None = None
        """What the cache gave; None while the request waits for room."""
        self.prompt_tokens = tokens
        self.generated = 0
        self.hashes = hashes  # of the full blocks
        self.rest = rest  # the tokens behind them, packed; None where tokens are not known
        self.root = root
        self.read = read
        self.computed = 0  # tokens, of steps that were scheduled
        self.finished = 0  # of those that have ended
        self.tables: list[Table] = []  # by group
        self.stored: list[int] = []  # by group: how many blocks were offered to later requests
        self.boundaries: list[int] = []
        self._cache = cache

    def extend(self, generated: Sequence[int]) -> None:
        """So many more tokens of the answer have come; a stream may say so, to be more exact."""
        self._cache._extend(self, generated)

    def finish(self, generated: Sequence[int] = (), *, stopped: bool = False) -> None:
        """The answer is complete: the request's blocks are free from now on.

        ``generated`` has every token that the model made and that ``extend`` was not told of, also
        the one that ended the answer. The last of them was never computed upon, so it is not in
        the cache. ``stopped`` says that a token ended the answer (``finish_reason`` is not
        ``length``); that matters to a server which is ``asynchronous``.
        """
        self._cache._finish(self, generated, stopped)


class BlockCache:
    """The cache of one server.

    Args:
        block_size: tokens in a block.
        blocks: what the server calls ``num_gpu_blocks``, of which one is never used; None for a
            cache without an end.
        windows: one entry for each group of layers that has blocks of its own, in the server's
            order: the tokens that a sliding window sees, None for full attention. Layers that are
            all alike are one group.
        max_model_len: tokens of prompt and answer that the server allows.
        max_num_batched_tokens: how much of a prompt is computed in one step. It matters only to
            sliding windows, which give blocks back between steps.
        max_num_seqs: how many requests run at a time; more have to wait.
        retention: ``--prefix-cache-retention-interval``, for sliding windows.
        asynchronous: each step is scheduled before the last one has ended, as vLLM does on GPUs
            unless ``--no-async-scheduling`` is given. So a token that ends an answer is known one
            step late, and a block may have been taken for what never came.
        exact: also remember every token ever computed (four bytes each), so that a hit says what
            was shared to the token. Without it, ``shared_tokens`` counts full blocks.
    """

    def __init__(
        self,
        block_size: int,
        blocks: int | None = None,
        *,
        windows: Sequence[int | None] = (None,),
        max_model_len: int | None = None,
        max_num_batched_tokens: int = 2048,
        max_num_seqs: int | None = None,
        retention: int | None = 0,
        asynchronous: bool = False,
        exact: bool = True,
    ) -> None:
        if block_size < 1 or not windows:
            raise ValueError("a block holds one token or more, and there is a group of layers")
        if blocks is not None and blocks < 2:
            raise ValueError("one block is never used, so there must be two or more")
        self.block_size = block_size
        self.blocks = blocks
        self.max_model_len = max_model_len
        self._windows = windows
        self._step = max_num_batched_tokens
        self._most_running = max_num_seqs
        self._retention = retention
        self._asynchronous = asynchronous
        self._exact = exact
        self.reset()

    def reset(self) -> None:
        """Empty the cache and forget all requests, as if the server had been started again."""
        self._pool = Pool(None if self.blocks is None else self.blocks - 1)
        self._contents = [Content() for _ in self._windows]
        by_window: dict[int | None, list[Content]] = {}
        for window, content in zip(self._windows, self._contents, strict=True):
            by_window.setdefault(window, []).append(content)
        kinds = {
            window: Layers(window, contents, self.block_size, self._retention)
            for window, contents in by_window.items()
        }
        self._layers = [kinds[window] for window in self._windows]  # by group
        # Full attention first: it bounds what the others can have.
        self._kinds = sorted(kinds.values(), key=lambda kind: kind.window is not None)
        # What a window takes away leaves full attention as it is; two windows bound each other.
        self._one_look = len(kinds) <= 1 + (self._kinds[0].window is None)
        self._computed = Computed(self.block_size, exact=self._exact)
        self._running: list[Running] = []
        self._waiting: deque[Running] = deque()

    def begin(
        self,
        prompt: Sequence[int],
        *,
        salt: str | None = None,
        lora: str | None = None,
        read: bool = True,
    ) -> Running:
        """Start a request; its ``hit`` says what the cache gives.

        Args:
            prompt: token ids.
            salt: ``cache_salt``: only requests with the same one share anything.
            lora: the adapter's name: adapters share nothing with each other or the base model.
            read: False for a request with ``prompt_logprobs``, which fills the cache but does not
                read it.

        Raises:
            PromptTooLong: the server would answer 400.
            ValueError: the prompt is empty.
        """
        self._check(len(prompt))
        root = hash((lora, salt))
        data = packed(prompt)
        hashes = self._chain(data, root)
        return self._begin(Running(self, hashes, data, root=root, tokens=len(prompt), read=read))

    def begin_hashed(self, hashes: Sequence[int], tokens: int) -> Running:
        """Start a request whose blocks are known by hashes that came with it, as in a trace.

        A hash stands for its block and all before it. What goes beyond the last full block of
        ``tokens`` is not looked at. Raises as ``begin`` does.
        """
        self._check(tokens)
        full = list(hashes[: tokens // self.block_size])
        return self._begin(Running(self, full, None, tokens=tokens))

    def _check(self, tokens: int) -> None:
        if not tokens:
            raise ValueError("a prompt has one token or more")
        if self.max_model_len is not None and tokens >= self.max_model_len:
            raise PromptTooLong(
                f"{tokens} prompt tokens leave no room for an answer in {self.max_model_len}"
            )

    def _chain(self, data: bytes, before: int) -> list[int]:
        """The hashes of the full blocks, each over all that goes before."""
        return chained(data, self.block_size, before)

    def _begin(self, request: Running) -> Running:
        self._waiting.append(request)
        self._admit()
        return request

    def _admit(self) -> None:
        """Start whoever waits, in order, as long as there is room for the whole prompt."""
        while self._waiting and not self._crowded():
            request = self._waiting.popleft()
            if not self._start(request):
                self._waiting.appendleft(request)
                break
            self._running.append(request)

    def _crowded(self) -> bool:
        return self._most_running is not None and len(self._running) >= self._most_running

    def _start(self, request: Running) -> bool:
        """Look up, take blocks and compute the prompt; False if it does not fit."""
        tokens = request.prompt_tokens + request.generated
        tables, cached, longest = self._look_up(request)
        if not self._fits(tokens, tables):
            return False
        self._judge(request, cached, longest)
        # Behind its prompt's last full block a later request may resume; and where full attention
        # had more than the windows, several prompts are alike up to there.
        request.boundaries = [request.prompt_tokens - 1, longest]
        request.tables, request.stored = tables, [len(table) for table in tables]
        request.computed = request.finished = cached
        for table in tables:
            self._pool.touch(table)
        while request.computed < tokens:
            if not self._compute(request, min(self._step, tokens - request.computed)):
                break
        return True

    def _fits(self, tokens: int, tables: Sequence[Table]) -> bool:
        """Whether the whole prompt has room, given the blocks that were found."""
        in_flight = self._step * (1 + self._asynchronous)
        most = [layers.most(tokens, in_flight, self.max_model_len) for layers in self._layers]
        if self._pool.has(sum(most)):
            return True
        new = (max(0, count - len(table)) for count, table in zip(most, tables, strict=True))
        return self._pool.has(sum(new) + sum(map(self._pool.unused, tables)))

    def _look_up(self, request: Running) -> tuple[list[Table], int, int]:
        """Each group's blocks, the tokens of the hit, and those that some layers had."""
        if not request.read:
            return [[] for _ in self._layers], 0, 0
        hashes = request.hashes
        blocks, longest = min(self._usable_blocks(request), len(hashes)), 0
        found: dict[int | None, range] = {}
        while True:
            before = blocks
            for kind in self._kinds:
                if kind.window is not None or not found:
                    found[kind.window] = kind.hit(hashes, blocks)
                    blocks = found[kind.window].stop
                    longest = max(longest, blocks)
            if blocks == before or self._one_look:
                break
        tables: list[Table] = []
        for layers, content in zip(self._layers, self._contents, strict=True):
            start = found[layers.window].start
            tables.append([*repeat(0, start), *map(content.at, hashes[start:blocks])])
        return tables, blocks * self.block_size, longest * self.block_size

    def _usable_blocks(self, request: Running) -> int:
        """The last token is computed in any case, for what comes after it."""
        return (request.prompt_tokens + request.generated - 1) // self.block_size

    def _judge(self, request: Running, cached: int, longest: int) -> None:
        """Say what was given and why it was not more."""
        if request.hit is not None:
            return  # it was pushed out and starts again
        size, hashes, root = self.block_size, request.hashes, request.root
        data = request.rest or b""  # the whole prompt, still
        shared = self._computed.shared(
            behind(data, longest // size * size), hashes, root, longest // size
        )
        loss: Loss = ""
        if cached < shared:
            usable = min(shared, request.prompt_tokens - 1) // size * size
            if not request.read:
                loss = "off"
            elif cached < longest:
                loss = "checkpoint"
            elif cached < usable:
                loss = "evicted"
            elif usable < shared // size * size or shared == cached + 1 == request.prompt_tokens:
                loss = "whole_prompt"
            else:
                loss = "block"
        request.hit = Hit(request.prompt_tokens, cached, shared, loss)
        known = shared // size
        self._computed.add(behind(data, known * size), hashes, root, known)
        if request.rest is not None:
            request.rest = behind(request.rest, len(hashes) * size)

    def _compute(self, request: Running, tokens: int) -> bool:
        """One step: free what windows have passed, take blocks, offer those that are full."""
        for layers, table in zip(self._layers, request.tables, strict=True):
            self._drop(table, layers.passed(request.finished))
        end = request.computed + tokens
        blocks = -(-end // self.block_size)
        missing = [max(0, blocks - len(table)) for table in request.tables]
        while not self._pool.has(sum(missing)):
            if not self._preempt(request):
                return False
        for table, count in zip(request.tables, missing, strict=True):
            table += self._pool.take(count)
        request.finished = request.computed if self._asynchronous else end
        request.computed = end
        self._offer(request)
        return True

    def _drop(self, table: Table, passed: int) -> None:
        """Free the blocks that a window has passed, from the newest to where it stopped before."""
        number = min(passed, len(table))
        dropped: Table = []
        while number and table[number - 1]:
            number -= 1
            dropped.append(table[number])
            table[number] = 0
        self._pool.free(dropped)

    def _offer(self, request: Running) -> None:
        """Let later requests find the blocks that are full by now."""
        full = min(request.computed // self.block_size, len(request.hashes))
        for group, (layers, content) in enumerate(zip(self._layers, self._contents, strict=True)):
            start, table = request.stored[group], request.tables[group]
            if start < full:
                hashes, blocks = request.hashes[start:full], table[start:full]
                for number in layers.left_out(start, full, request.boundaries):
                    blocks[number - start] = 0
                self._pool.offer(content, hashes, blocks)
                request.stored[group] = full

    def _preempt(self, request: Running) -> bool:
        """Push out the newest of the others, which starts again when there is room."""
        for other in reversed(self._running):
            if other is not request:
                self._running.remove(other)
                self._waiting.appendleft(other)
                self._release(other)
                return True
        return False

    def _release(self, request: Running) -> None:
        for table in request.tables:
            self._pool.free(reversed(table))
        request.tables = []

    def _extend(self, request: Running, generated: Sequence[int]) -> None:
        if request.tables:
            self._decode(request, generated)

    def _finish(self, request: Running, generated: Sequence[int], stopped: bool) -> None:
        if request in self._running:
            self._running.remove(request)
        else:
            # The server found room where none is seen here: it has ended others by now.
            self._waiting.remove(request)
            while not self._start(request) and self._preempt(request):
                pass
        if request.tables:
            self._decode(request, generated)
            if stopped and self._asynchronous:
                self._compute(request, 1)  # for a token that will not be wanted
            self._release(request)
        self._admit()

    def _decode(self, request: Running, generated: Sequence[int]) -> None:
        if not len(generated):
            return
        request.generated += len(generated)
        if request.rest is not None:
            known = len(request.hashes)
            rest = request.rest + packed(generated)
            computed = request.rest + packed(generated[:-1])  # the last one was chosen only
            before = request.hashes[-1] if known else request.root
            request.hashes += self._chain(computed, before)
            self._computed.add(computed, request.hashes, request.root, known)
            request.rest = behind(rest, (len(request.hashes) - known) * self.block_size)
        missing = request.prompt_tokens + request.generated - 1 - request.computed
        # A window moves with each token; without one, only full blocks matter.
        step = 1 if any(self._windows) else max(1, missing)
        for _ in range(0, missing, step):
            self._compute(request, step)
