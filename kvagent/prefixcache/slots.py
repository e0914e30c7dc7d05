"""How many tokens of a prompt does llama.cpp's server take from its slots?

A slot holds the tokens of the last request that it served. A new request goes to the slot with the
most in common, or to the one not used for the longest time, and computes what is not common. What a
slot is about to lose may go to the host's memory first (``hostcache``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvagent.prefixcache.checkpoints import Checkpoint, Rules, usable
from kvagent.prefixcache.hit import Hit, Loss, PromptTooLong
from kvagent.prefixcache.hostcache import Entry, HostCache, NoRoom, single
from kvagent.prefixcache.memory import Layout, Memory
from kvagent.prefixcache.seen import Seen, Tokens, common_prefix, tokens

MIB = 1024 * 1024


class Busy(Exception):
    """No slot is free, or not the one asked for: the server sets the request aside until one is."""


@dataclass(slots=True)
class _Slot:
    number: int
    tokens: Tokens[int] = field(default_factory=lambda: tokens(()))
    checkpoints: list[Checkpoint] = field(default_factory=list)
    last_used: int = -1
    running: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A request whose prompt the server has computed and which generates."""

    slot: int
    hit: Hit
    _finish: Callable[[Sequence[int]], None]

    def finish(self, generated: Sequence[int]) -> None:
        """The request has ended with these token ids, the stop token too where there is one.

        The last one was never computed, so the slot does not hold it.
        """
        self._finish(generated)


class SlotCache:
    """llama.cpp's slots, as a server of one model has them.

    Args:
        slots: ``--parallel``.
        n_ctx: ``--ctx-size``: what all slots share, or divide among them.
        unified: ``--kv-unified``.
        similarity: ``--slot-prompt-similarity``.
        host_cache: bytes of ``--cache-ram``; 0 is off, None without limit.
        idle_slots: ``--cache-idle-slots``.
        layout: what the model keeps of a token; decides how many prompts the host cache holds and
            where a slot can be rolled back to. Without one, a slot can be rolled back to any token
            and a saved prompt takes next to nothing.
        n_ctx_train: the model's own window, which caps a slot's.
        checkpoints: ``--ctx-checkpoints``, ``--checkpoint-min-step`` and the batch sizes.
        swa_full: ``--swa-full``.
        user_marker: the token ids that begin a user turn in the model's template; without them
            there is no checkpoint at the start of a user turn.
    """

    def __init__(
        self,
        slots: int = 1,
        n_ctx: int = 8192,
        *,
        unified: bool = False,
        similarity: float = 0.10,
        host_cache: int | None = 8192 * MIB,
        idle_slots: bool = True,
        layout: Layout | None = None,
        n_ctx_train: int | None = None,
        checkpoints: Rules | None = None,
        swa_full: bool = False,
        user_marker: Sequence[int] = (),
    ) -> None:
        layout = layout or Layout()
        rules = checkpoints or Rules()
        a_slot = n_ctx if unified else -(-(n_ctx // slots) // 256) * 256
        whole = n_ctx if unified else a_slot * slots
        n_batch = min(rules.n_batch, whole)
        self._rules = Rules(rules.limit, rules.min_step, n_batch, min(rules.n_ubatch, n_batch))
        self._unified = unified
        self._similarity = single(similarity)
        self._window = 0 if swa_full else layout.window
        self._makes_checkpoints = rules.limit > 0 and bool(self._window or layout.recurrent)
        self._user_marker = tokens(user_marker)
        self._host = None if host_cache == 0 else HostCache(host_cache, whole)
        self._saves_idle_slots = idle_slots and self._host is not None
        self._memory = Memory(
            layout,
            slots=slots,
            n_ctx=a_slot,
            unified=unified,
            n_ubatch=self._rules.n_ubatch,
            swa_full=swa_full,
        )
        self._slots = [_Slot(number) for number in range(slots)]
        self._computed = Seen()
        self._clock = 0
        self.window = min(a_slot, n_ctx_train or a_slot)
        """Tokens of a prompt and its answer in one slot; a prompt must be shorter."""

    def begin(
        self,
        prompt: Sequence[int],
        *,
        id_slot: int | None = None,
        cache_prompt: bool = True,
        n_cache_reuse: int = 0,
    ) -> Running:
        """Serve a request up to its first generated token.

        Raises:
            Busy: it has to wait for another to finish; nothing has changed.
            PromptTooLong: it does not fit.
            ValueError: it is empty.
        """
        if not len(prompt):
            raise ValueError("a prompt has at least one token")
        new = tokens(prompt)
        shared = self._computed.longest(new)
        slot = self._choose(new, id_slot)
        self._save_idle_slots(but=slot)
        self._clock += 1
        if len(new) >= self.window:
            slot.last_used = self._clock
            raise PromptTooLong(f"{len(new)} tokens do not fit a slot of {self.window}")
        cached, common = self._reuse(slot, new, cache_prompt, n_cache_reuse)
        loss = self._loss(slot, new, cached, common, shared, cache_prompt)
        slot.running = True
        self._compute(slot, new, cached)
        self._computed.add(new)

        def finish(generated: Sequence[int]) -> None:
            self._generate(slot, generated)

        return Running(slot.number, Hit(len(new), cached, shared, loss), finish)

    def _choose(self, new: Tokens[int], id_slot: int | None) -> _Slot:
        """The slot that serves ``new``, with the better prompt of the host cache in it if there is one."""
        pinned = None if id_slot is None or id_slot < 0 else self._slots[id_slot % len(self._slots)]
        free = [slot for slot in self._slots if not slot.running]
        if not free or (pinned and pinned.running):
            raise Busy
        best, most = pinned, 0.0
        # A number beyond the last slot wraps around, but what that slot holds is then not looked at.
        for slot in [slot for slot in free if pinned is None or slot.number == id_slot]:
            similarity = single(common_prefix(slot.tokens, new) / len(new))
            if similarity > max(most, self._similarity) and self._similarity:
                best, most = slot, similarity
        if best is None:
            # Of slots that were never used, the last one.
            best = min(reversed(free), key=lambda slot: slot.last_used)
            loses_much = True
        else:
            # Not so in an empty slot (0 / 0), which a pinned request therefore finds empty.
            kept = single(most * len(new)) / len(best.tokens) if best.tokens else 1.0
            loses_much = single(kept) < 0.5 and bool(self._similarity)
        if loses_much and self._host:
            self._swap(best, new, self._host)
        return best

    def _swap(self, slot: _Slot, new: Tokens[int], host: HostCache) -> None:
        """Save what the slot holds and load what serves ``new`` better."""
        self._save(slot, host)
        try:
            better = host.load(
                new, slot.tokens, lambda entry: self._memory.restore(slot.number, entry.state)
            )
        except NoRoom:
            self._clear(slot)
        else:
            if better:
                slot.tokens, slot.checkpoints = better.tokens[:], list(better.checkpoints)
        host.trim()

    def _save(self, slot: _Slot, host: HostCache) -> bool:
        if not slot.tokens:
            return False
        state, size = self._memory.save(slot.number)
        size += sum(checkpoint.size for checkpoint in slot.checkpoints)
        return host.save(Entry(slot.tokens[:], tuple(slot.checkpoints), state, size))

    def _save_idle_slots(self, *, but: _Slot) -> None:
        """At each new request; in a unified memory the idle slots then make room, saved or not."""
        if not self._saves_idle_slots or self._host is None:
            return
        for slot in self._slots:
            if slot is but or slot.running:
                continue
            if self._save(slot, self._host):
                self._host.trim()
            if self._unified:
                self._clear(slot)

    def _clear(self, slot: _Slot) -> None:
        self._memory.keep(slot.number, 0)
        slot.tokens, slot.checkpoints = tokens(()), []

    def _reuse(
        self, slot: _Slot, new: Tokens[int], cache_prompt: bool, n_cache_reuse: int
    ) -> tuple[int, int]:
        """The tokens that need no prefill, and those that the slot has in common with the prompt."""
        common = common_prefix(slot.tokens, new) if cache_prompt else 0
        if cache_prompt and n_cache_reuse > 0 and self._memory.can_shift:
            common = self._move(slot, new, common, n_cache_reuse)
        cached = end = common
        # A window before what comes next is needed; a prompt that matches to its end recomputes a token.
        needed = max(0, end - self._window - (common == len(new)))
        if 0 < cached <= len(slot.tokens) and self._memory.first(slot.number) >= needed:
            checkpoint = usable(slot.checkpoints, end, needed)
            cached = end = 0
            if checkpoint:
                end = min(common, max(checkpoint.first + 1, checkpoint.last))
                cached = min(end, checkpoint.length)
                self._memory.roll_back(slot.number, checkpoint.window, cached)
        slot.checkpoints = [known for known in slot.checkpoints if known.last <= end]
        return min(cached, len(new) - 1), common

    def _move(self, slot: _Slot, new: Tokens[int], common: int, least: int) -> int:
        """``--cache-reuse``: runs of ``least`` tokens or more that come later in the slot move forward.

        Returns the length that can then be reused.
        """
        held = slot.tokens
        source = target = common
        while source < len(held) and target < len(new):
            run = 0
            end = min(len(held) - source, len(new) - target)
            while run < end and held[source + run] == new[target + run]:
                run += 1
            if run >= least:
                self._memory.shift(slot.number, source, run, target)
                held[target : target + run] = held[source : source + run]
                source, target = source + run, target + run
            else:
                source += 1
        return target

    def _compute(self, slot: _Slot, new: Tokens[int], cached: int) -> None:
        """Compute the prompt from ``cached`` on, batch by batch, and make the checkpoints."""
        memory, number, length = self._memory, slot.number, len(new)
        turns = self._user_starts(new) if self._makes_checkpoints else []
        memory.keep(number, cached)
        start = cached
        while start < length:
            stop = min(start + self._rules.n_batch, length)
            if self._makes_checkpoints:
                stop = self._rules.next_stop(start, length, turns, slot.checkpoints)
                wanted = self._rules.wanted(start, stop, length, turns, slot.checkpoints)
                if wanted and memory.first(number) >= 0:
                    self._make_checkpoint(slot, start)
            self._make_room(stop - start)
            memory.add(number, stop)
            start = stop
        slot.tokens = new[:]

    def _make_checkpoint(self, slot: _Slot, length: int) -> None:
        first, last = self._memory.first(slot.number), self._memory.last(slot.number)
        window, size = self._memory.checkpoint(slot.number)
        new = Checkpoint(length, first, last, self._clock, window, size)
        slot.checkpoints = self._rules.with_one_more(slot.checkpoints, new)

    def _user_starts(self, new: Tokens[int]) -> list[int]:
        marker = self._user_marker
        if not marker:
            return []
        first, length = marker[0], len(marker)
        return [
            at for at, token in enumerate(new) if token == first and new[at : at + length] == marker
        ]

    def _generate(self, slot: _Slot, generated: Sequence[int]) -> None:
        """Append all but the last token and let the slot be free."""
        slot.tokens.extend(generated[:-1])
        self._make_room(max(0, len(generated) - 1))
        self._memory.add(slot.number, len(slot.tokens), at_once=1)
        self._computed.add(slot.tokens)
        self._clock += 1
        slot.last_used, slot.running = self._clock, False

    def _make_room(self, wanted: int) -> None:
        """Clear idle slots, the first one first, until a batch fits the memory that all share."""
        for slot in self._slots:
            if self._memory.fits(wanted):
                return
            if self._unified and not slot.running and slot.tokens:
                if self._host:
                    self._host.dropped.add(slot.tokens)
                self._clear(slot)

    def _loss(
        self,
        slot: _Slot,
        new: Tokens[int],
        cached: int,
        common: int,
        shared: int,
        cache_prompt: bool,
    ) -> Loss:
        if cached >= shared:
            return ""
        if not cache_prompt:
            return "off"
        if cached < min(common, len(new) - 1):
            return "checkpoint"
        if cached == len(new) - 1:
            return "whole_prompt"
        if self._host and self._host.dropped.longest(new) >= shared:
            return "evicted"
        return "slot"
