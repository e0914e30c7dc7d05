"""What is kept of a request once it is answered, and what is there to tell?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvagent import learned
from kvagent.backends import Server, Usage, usage_of
from kvagent.bill import saved_tokens
from kvagent.chat import ChatReply, shown, text_of
from kvagent.entry import Entry, Facts, Reply, Sent, newest_facts
from kvagent.events import Edited, Event, Overflowed, Part, PrefixBroken
from kvagent.form import consumed_until, resumable
from kvagent.limits import Limits
from kvagent.meter import Meter, part_of
from kvagent.plan import Asked, Plan
from kvagent.planner import Planner
from kvagent.recall import visible
from kvagent.stages import Turn, compact
from kvagent.stages.compact import ahead
from kvagent.stages.spared import spared
from kvagent.summaries import Summaries
from kvagent.tokens import count_tokens
from kvagent.weigher import Weigher, head_bytes

logger = logging.getLogger("kvagent")


class Settler:
    """Keeps the answered turns of one engine."""

    def __init__(
        self,
        planner: Planner,
        meter: Meter,
        weigher: Weigher,
        limits: Limits,
        summaries: Summaries,
    ) -> None:
        self._planner = planner
        self._meter = meter
        self._weigher = weigher
        self._limits = limits
        self._summaries = summaries

    def settle(
        self,
        plan: Plan,
        reply: ChatReply,
        ttft_s: float | None,
        asked: Asked,
        server: Server | None,
    ) -> list[Event]:
        """Keep an answered turn; returns the events to tell."""
        turn = plan.turn
        window = self._limits.window(turn.request.model, self._planner.window(server))
        told_events: list[Event] = []
        usage = usage_of(reply.counts) if reply.counts else Usage(None, None, None, None)
        counted = usage.prompt_tokens is not None
        added: dict[Part, int] = {}
        total = turn.past_tokens
        if turn.past is turn.tree.root:
            if counted:  # what a message weighs until this count corrects it
                total = self._meter.tokens("head", head_bytes(turn.head))
            added["head"] = total
        sent: list[Sent] = []
        for fresh in turn.tail:
            part, before = part_of(fresh.role), () if fresh.left_out else fresh.before
            hidden = sum(map(self._weigher.message, before))
            own = self._meter.tokens(part, fresh.form) if counted else turn.weight(fresh) - hidden
            added[part] = added.get(part, 0) + own  # the hidden grew with the turn before
            total += own + hidden
            sent.append(
                Sent(fresh.meaning, fresh.role, fresh.raw, fresh.sent, fresh.noted, total, own)
            )
        self._account(plan, usage_of(asked.counts) if asked.counts else usage, added)
        told = sum(map(self._weigher.message, asked.messages))
        if asked.times:
            self.own_call(reply.counts)
            added["tool"] = added.get("tool", 0) + told
        elif not plan.broken:
            cut = self._cut(plan, (total + turn.past_tokens) // 2, usage)
            if cut is None:
                self._weigher.calibrate(turn, usage)
            else:
                told_events.append(cut)
        facts, events = self._meter.finish(
            plan.conversation,
            _facts_before(turn),
            added,
            usage,
            ttft_s,
            window,
            again=not turn.tail,
            server=server,
            whole=not plan.broken and not turn.revised,
        )
        facts = replace(facts, rent=turn.rent, swept=turn.swept)
        if turn.tree.store.durable:
            facts = replace(facts, learned=learned.told(self._meter, self._limits))
        if sent and usage.prompt_tokens is not None:
            sent[-1] = replace(sent[-1], tokens=usage.prompt_tokens - told)
        replies: list[Reply] = []
        if reply.complete:
            seen = visible(reply.messages, asked.shown)
            replies = [
                Reply.of(message, asked.messages, caller_has)
                for message, caller_has in zip(reply.messages, seen, strict=True)
            ]
        tip = turn.tree.extend(
            turn.past, sent, turn.head, turn.told, plan.session, facts, replies, turn.revision
        )
        own = turn.own.keep(tip, ((fresh.raw, fresh.incoming) for fresh in turn.tail))
        record = resumable(plan.form, turn, plan.match, (plan.namespace, plan.session), tip, own)
        if record is not None:
            self._planner.resumables.keep(record, instead_of=plan.before)
        try:
            self._write_ahead(plan, tip, sum(facts.growths) / max(1, len(facts.growths)))
        except Exception:  # the turn itself is kept
            logger.exception("kvagent failed to have a narrative written ahead")
        return [*told_events, *events]

    def _cut(self, plan: Plan, expected: int, usage: Usage) -> Overflowed | None:
        """What to tell where the server cut the front off the prompt without a word."""
        turn = plan.turn
        self._limits.answered(turn.request.model, usage)
        if usage.prompt_tokens is None or usage.prompt_tokens >= expected:
            return None  # it grew as it should: nothing has to be counted
        # Without tools, reasoning and pictures: a template may leave them out in good faith.
        standing = (
            *turn.request.messages[: turn.request.head_size],
            *(each.sent for each in turn.standing()),
        )
        compared = self._meter.calibrated > 0
        least = sum(count_tokens(shown({**each, "content": text_of(each)})) for each in standing)
        least = int(least * min(1.0, self._meter.least_scale)) if compared else least
        if not self._limits.cut(turn, least, usage, compared=compared):
            return None
        window = usage.prompt_tokens
        return Overflowed(plan.conversation, 200, least, at_least=True, window=window, silent=True)

    def _write_ahead(self, plan: Plan, tip: Entry, growth: float) -> None:
        """Have a narrative written in the background, if one will be needed soon."""
        turn = plan.turn
        if (
            self._summaries.summarize is None
            or not self._planner.runs(compact)
            or tip is turn.tree.root
        ):
            return
        consumed = consumed_until(plan.match, turn)
        after = replace(turn, past=tip, past_head=tip.head, past_tokens=tip.tokens)
        after.tail, after.revised, after.consumed, after.tiers = [], {}, consumed, None
        due = ahead(after, growth)
        if due is not None:
            self._summaries.start(plan.namespace, *due)

    def _account(self, plan: Plan, usage: Usage, added: Mapping[Part, int]) -> None:
        """The turn's place in the bill."""
        edits = [event for event in plan.events if isinstance(event, Edited) and event.applied]
        cost = sum(edit.cost_tokens for edit in edits)
        lost = sum(event.lost_tokens for event in plan.events if isinstance(event, PrefixBroken))
        if usage.prompt_tokens is not None and usage.cached_tokens is not None:
            prefilled = usage.prompt_tokens - usage.cached_tokens
        else:
            echoed = (
                plan.turn.past.replies and plan.turn.tail and plan.turn.tail[0].role == "assistant"
            )
            known = added.get("assistant", 0) if echoed else 0
            prefilled = sum(added.values()) - known + cost + lost
        kept = spared(plan.turn) if plan.turn.policy.mode != "observe" else 0
        without = max(0, prefilled + saved_tokens(edits, kept) - cost)
        freed = sum(edit.freed_tokens for edit in edits)
        self._meter.account.request(prefilled, without, freed, cost)

    def own_call(self, counts: Mapping[str, Any]) -> None:
        """A call of kvagent's own has its place in the bill."""
        if counts:
            self._meter.account.own(usage_of(counts))


def _facts_before(turn: Turn) -> Facts | None:
    """What is known of the newest answered turn that this one continues, without what was freed."""
    facts = newest_facts(turn.past)
    freed = turn.past.tokens - turn.past_tokens if turn.revised else 0
    if not freed or facts is None or facts.prompt_tokens is None:
        return facts
    return replace(facts, prompt_tokens=max(0, facts.prompt_tokens - freed))
