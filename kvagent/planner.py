"""In which form does a request go out?

What is known of the conversation is replayed, the stages change what is new, and what goes out is
compared with what was sent before.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from kvagent import learned
from kvagent.backends import PROMPT_KEYS, Server
from kvagent.chat import ChatRequest, Doubt, with_text_appended
from kvagent.entry import Facts, newest_facts
from kvagent.events import Edited, Event
from kvagent.fingerprint import digest, identity, meaning
from kvagent.flow import Ask
from kvagent.form import Form, continued, written
from kvagent.head import HeadReader, HeadView
from kvagent.ledger import Ledger, Tree
from kvagent.limits import Limits
from kvagent.mender import Mender
from kvagent.meter import Meter
from kvagent.own import follow
from kvagent.plan import Plan
from kvagent.policy import Policy
from kvagent.recall import TOOL
from kvagent.recognise import Match, recognise, reopened
from kvagent.resume import Resumable, Resumables
from kvagent.seal import check_pairs, head_break, message_break, repairs
from kvagent.stages import Fresh, Stage, Turn, echo, pin_head
from kvagent.summaries import Summaries
from kvagent.tokens import count_tokens
from kvagent.volatile import NOTE
from kvagent.weigher import Weigher


class Planner:
    """Makes the requests of one engine ready."""

    def __init__(
        self,
        policy: Policy,
        stages: Sequence[Stage],
        ledger: Ledger,
        meter: Meter,
        weigher: Weigher,
        limits: Limits,
        summaries: Summaries,
    ) -> None:
        self._policy = policy
        self._stages = stages
        self._ledger = ledger
        self._store = ledger.store
        self._meter = meter
        self._weigher = weigher
        self._limits = limits
        self._summaries = summaries
        offered = policy.recall is not None and policy.mode == "full"
        self._reader = HeadReader(policy.volatile.patterns, PROMPT_KEYS, TOOL if offered else None)
        self._mender = Mender(policy.mend, ledger.store)
        self.resumables = Resumables(policy.memory_bytes // 4)

    def window(self, server: Server | None) -> int | None:
        """Tokens one conversation may have: as the policy says, else as the server says."""
        return self._policy.window or (server.window if server else None)

    def plan(
        self, raw: bytes, session: str | None, namespace: str, server: Server | None
    ) -> Generator[Ask, Any, Plan]:
        """The request made ready; ``Doubt`` where it should go out as it came."""
        found = self.resumables.find(raw, (namespace, session))
        if found is not None:
            try:
                plan = yield from self._planned(raw, session, namespace, server, *found)
            except Doubt:
                plan = None  # read whole, it may be fine, or it is clearer what is wrong
            if plan is not None:
                return plan
        plan = yield from self._planned(raw, session, namespace, server, None, b"")
        assert plan is not None
        return plan

    def _planned(
        self,
        raw: bytes,
        session: str | None,
        namespace: str,
        server: Server | None,
        before: Resumable | None,
        added: bytes,
    ) -> Generator[Ask, Any, Plan | None]:
        """The request made ready; None when it does not simply continue ``before``."""
        if before is not None:
            request = ChatRequest.resume(raw, added, before.count, before.body, before.head_size)
            view = before.view
            start = Match(before.tip, before.consumed, [])
        else:
            request = ChatRequest.parse(raw)
            view = self._reader.view(request)
            start = None
        tree = self._ledger.tree(namespace, request.model)
        raws = [identity(message) for message in request.fresh]
        if before is not None and added[1:-1] != b",".join(raws):
            return None  # written otherwise than the SDK does
        full = self._policy.mode != "safe"
        match = recognise(tree, request.fresh, raws, view, session, full=full, start=start)
        if full and self._policy.pin_head and _values_changed(match, view):
            if before is not None:
                return None
            match = reopened(match, request.fresh)
        if before is not None and (
            match.tip.depth < before.tip.depth or before.answered_otherwise(request.fresh[0])
        ):
            return None
        turn = self._turn(request, view, tree, match, raws, namespace, server, before)
        yield from self._staged(turn)
        if turn.revised and not turn.tail and match.tip.parent is not None:
            # What is revised is kept with a message that is sent behind it.
            match = match.back_to(match.tip.parent)
            turn = self._turn(request, view, tree, match, raws, namespace, server, before)
            yield from self._staged(turn)
        self._settle_template(turn, server)
        self._attach_notes(turn)
        check_pairs(turn)
        if before is not None:
            if turn.revised:
                return None
            if turn.head is not before.head and turn.head.name != before.head.name:
                return None
            form = continued(before, turn, raws)
        else:
            form = written(turn, raws)
        return self._plan(turn, match, form, raws, session, namespace, before)

    def _staged(self, turn: Turn) -> Generator[Ask, Any, None]:
        """Let the stages change the turn."""
        tail = list(turn.tail)
        for stage in self._stages:
            if self.runs(stage):
                asking = stage(turn)
                if asking is not None:
                    yield from asking
        if turn.tail != tail:
            raise Doubt("a stage added, dropped or moved messages; it may only change them")

    def _turn(
        self,
        request: ChatRequest,
        view: HeadView,
        tree: Tree,
        match: Match,
        raws: Sequence[bytes],
        namespace: str,
        server: Server | None,
        before: Resumable | None,
    ) -> Turn:
        facts = newest_facts(match.tip) or Facts(0)
        if facts.learned and not self._meter.turns:
            learned.resume(facts.learned, self._meter, self._limits)
        first = match.covered + request.head_size - request.known
        tail = [
            Fresh(
                index=request.known + at,
                incoming=request.fresh[at],
                raw=raws[at],
                meaning=meaning(request.fresh[at]),
                message=request.fresh[at],
            )
            for at in range(first, len(raws))
        ]

        def store_original(text: str) -> str:
            handle = "r" + blake2b(text.encode(), digest_size=6).hexdigest()
            if self._policy.mode != "observe":  # else it goes out whole
                self._store.add(namespace, b"original:" + handle.encode(), text.encode())
            return handle

        limit = self._limits.of_request(request.raw)
        begin = None if before is None else (before.tip, before.own)
        head = view.as_sent()
        begun = match.tip is not tree.root
        same = match.tip.under(view.meanings) or match.tip
        told = same.told
        same = same.under(view.meanings, view.tool_forms.keys()) or same
        return Turn(
            request=request,
            view=view,
            tree=tree,
            past=match.tip,
            past_head=same.head,
            past_told=told,
            tail=tail,
            policy=self._policy,
            window=self._limits.window(request.model, self.window(server), limit),
            summaries=self._summaries,
            namespace=namespace,
            count_tokens=count_tokens,
            store_original=store_original,
            resends_reasoning=lambda: self._mender.resends_reasoning(server),
            weigh_text=self._weigher.text,
            weigh=self._weigher.message,
            consumed=match.consumed,
            own=follow(match, request.fresh, raws, view, begin),
            past_tokens=match.tip.tokens if begun else self._weigher.head(head),
            head=head,
            told=dict(enumerate(view.values)),
            rent=facts.rent,
            swept=facts.swept,
            carry_cost=self._meter.carry_cost,
        )

    def runs(self, stage: Stage) -> bool:
        """Whether a stage has something to do under this policy."""
        if stage is pin_head:
            return self._policy.pin_head is not None
        if stage is echo:
            return self._policy.echo is not None
        return self._policy.mode != "safe"  # other stages change what a model reads

    def _plan(
        self,
        turn: Turn,
        match: Match,
        form: Form,
        raws: Sequence[bytes],
        session: str | None,
        namespace: str,
        before: Resumable | None,
    ) -> Plan:
        conversation = session or _name_of(turn)
        applied = self._policy.mode != "observe"
        events: list[Event] = [
            Edited(
                conversation,
                edit.stage,
                edit.cause,
                edit.index,
                edit.count,
                edit.saved_tokens,
                applied,
                edit.detail,
                edit.freed_tokens,
                edit.cost_tokens,
                edit.expected_tokens,
            )
            for edit in (*repairs(turn, match, raws), *turn.edits)
        ]
        broken = head_break(turn, conversation) or message_break(turn, match, conversation)
        if broken is not None:
            events.append(broken)
        return Plan(turn, match, form, conversation, session, namespace, events, before)

    def _settle_template(self, turn: Turn, server: Server | None) -> None:
        """What is added for the chat template's sake: chosen once, then kept."""
        if turn.past_head is not None:
            switches, opening = turn.past_head.switches, turn.past_head.opening
        elif self._policy.mode == "full":
            switches = self._mender.switches(server)
            opening = b"" if turn.request.head_size else self._mender.opening(server)
        else:
            switches = opening = b""
        if (turn.head.switches, turn.head.opening) != (switches, opening):
            turn.head = replace(turn.head, switches=switches, opening=opening)

    def _attach_notes(self, turn: Turn) -> None:
        if not turn.notes:
            return
        bearer = turn.note_bearer
        if bearer is None:
            raise Doubt("there is no fresh message that could bear a note")
        note = "\n\n" + "\n".join(NOTE + line for line in turn.notes)
        bearer.message = with_text_appended(bearer.message, note)
        bearer.noted = True


def _values_changed(match: Match, view: HeadView) -> bool:
    """Whether volatile text says something else than the model was told last."""
    told_at = match.tip.under(view.meanings)
    return told_at is not None and any(
        told_at.told.get(place) != value for place, value in enumerate(view.values)
    )


def _name_of(turn: Turn) -> str:
    """The conversation's name: its first message as sent, under its head."""
    entry = turn.past
    if entry.parent is None:
        first = (part for fresh in turn.tail[:1] for part in (fresh.meaning, fresh.sent))
        return "c" + digest(entry.key, *first, turn.head.key).hex()[:12]
    while entry.parent.parent is not None:
        entry = entry.parent
        assert entry.parent is not None
    return "c" + entry.key.hex()[:12]
