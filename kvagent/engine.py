"""What goes out for this request, and what is kept of its answer?

The engine does no network I/O. A turn is one generator: it yields the calls to be made and is sent
their answers, so one code serves sync clients, async clients and proxies. The caller's request
comes first: any error in here lets the original bytes out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from kvagent.backends import (
    PROMPT_KEYS,
    Fetch,
    Fetched,
    Server,
    Usage,
    learn,
    overflow_of,
    probe,
    usage_of,
)
from kvagent.bill import saved_tokens
from kvagent.chat import ChatReply, ChatRequest, Doubt, shown, text_of, with_text_appended
from kvagent.entry import Entry, Facts, Head, Reply, Sent, newest_facts
from kvagent.events import Bypassed, Edited, Event, Overflowed, Part, PrefixBroken
from kvagent.fingerprint import digest, identity, meaning
from kvagent.flow import Answer, Ask, Call, Flow, Settle, made
from kvagent.form import Form, consumed_until, continued, resumable, written
from kvagent.head import HeadReader, HeadView
from kvagent.hints import Hinter, added
from kvagent.ledger import Ledger, Tree
from kvagent.limits import Limits, with_reply
from kvagent.mender import Mender, with_opening, with_switches
from kvagent.meter import Meter, part_of
from kvagent.policy import Policy, Recall
from kvagent.recall import (
    RECALL,
    TOOL,
    LostHandle,
    asked_of,
    exchange,
    is_recalled,
    visible,
    without_texts,
)
from kvagent.recall import part_of as part_of_text
from kvagent.recognise import Match, recognise, reopened
from kvagent.resume import Resumable, Resumables
from kvagent.seal import check_pairs, head_break, message_break, repairs
from kvagent.session import current_session
from kvagent.stages import DEFAULT_STAGES, Fresh, Stage, Turn, compact, echo, pin_head
from kvagent.stages.compact import ahead
from kvagent.stores import Store, open_store
from kvagent.summaries import Summaries, Summarize
from kvagent.tokens import count_tokens
from kvagent.volatile import NOTE
from kvagent.weight import kv_bytes

logger = logging.getLogger("kvagent")

# What a chat template writes around a message.
_MESSAGE_TOKENS = 4
_HEADS = 64
# So many turns in the beginning are counted twice: by the general tokenizer and by the server.
_CALIBRATIONS = 8


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the model asked of kvagent within a turn, and was told."""

    messages: tuple[Mapping[str, Any], ...] = ()
    shown: str = ""
    """Text that was streamed to the caller before the last of these questions."""
    times: int = 0
    counts: Mapping[str, Any] = field(default_factory=dict)
    """What the server counted when the model was asked first: the agent's own request."""


def _settle_nothing(reply: ChatReply, ttft_s: float | None) -> None:
    """For requests that kvagent let through."""


@dataclass(slots=True)
class _Plan:
    """A request made ready, and what to keep of it once it is answered."""

    turn: Turn
    match: Match
    form: Form
    conversation: str
    session: str | None
    namespace: str
    events: list[Event]
    before: Resumable | None

    @property
    def broken(self) -> bool:
        """Whether the prefix broke with this request."""
        return any(isinstance(event, PrefixBroken) for event in self.events)


class Engine:
    """The middleware itself: one for a client, or one for many clients of one server.

    ``store`` is None (in memory), a path of a SQLite file, or a ``Store``. ``namespace`` names the
    tenant: what one namespace remembers never reaches another. ``on_event`` is called with each
    event, from the thread that made the request. ``summarizer`` is asked for a narrative of old
    turns when they have to leave the prompt, such as ``kvagent_openai.Summarizer``; without one,
    facts alone stand in their place.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | str | PathLike[str] | None = None,
        namespace: str = "",
        on_event: Callable[[Event], object] | None = None,
        stages: Sequence[Stage] | None = None,
        summarizer: Summarize | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self.store = open_store(store)
        self.namespace = namespace
        self.on_event = on_event
        self.stages = tuple(DEFAULT_STAGES if stages is None else stages)
        self.ledger = Ledger(self.store, self.policy.memory_bytes)
        self._template = _template(self.policy.template)
        kv = self.policy.kv
        self.meter = Meter(self.policy.warn_at, None if kv is None else kv_bytes(kv))
        self.server: Server | None = None
        """What the server is and how large its window; None until it was asked."""
        offered = self.policy.recall is not None and self.policy.mode == "full"
        self._reader = HeadReader(
            self.policy.volatile.patterns, PROMPT_KEYS, TOOL if offered else None
        )
        self._mender = Mender(self.policy.mend, self.store)
        self._hinter = Hinter(self.policy.hints)
        self._limits = Limits()
        self._summaries = Summaries(self.store, summarizer, self._own_call)
        self._heads: dict[bytes, int] = {}
        self._resumables = Resumables(self.policy.memory_bytes // 4)
        self._to_probe = self.policy.probe
        self._lock = Lock()

    @property
    def window(self) -> int | None:
        """Tokens one conversation may have: as the policy says, else as the server says."""
        return self.policy.window or (self.server.window if self.server else None)

    def turn(self, body: bytes, *, session: str | None = None) -> Flow:
        """One chat request: yields the call to make, and returns how to settle its reply.

        ``session`` is an explicit conversation id; ``kvagent.session`` goes before it. A retry
        comes as the same request again: only an answered one becomes a turn.
        """
        ready = yield from self._ready(body, session)
        if ready is None:
            yield Call(body, changed=False)
            return _settle_nothing
        plan, call = ready
        answer = yield call
        if self._is_too_long(plan, answer):
            smaller = yield from self._smaller(call, body, session)
            if smaller is not None:
                plan, call = smaller
                answer = yield call
                self._is_too_long(plan, answer)
        if answer.status >= 400:
            if answer.status == 503:  # still loading: it will say more of itself later
                self._to_probe = self.policy.probe
            return _settle_nothing
        for event in plan.events:
            self._emit(event)
        return self._settling(plan, _Asked())

    def _settling(self, plan: _Plan, asked: _Asked) -> Settle:
        """How to settle a reply: with a further call, where the model asked kvagent something."""

        def settle(reply: ChatReply, ttft_s: float | None) -> Flow | None:
            try:
                if self._is_for_kvagent(plan, reply, asked):
                    more = self._answered(plan, reply, asked)
                    return self._answering(plan, more, self._further(plan, more))
                self._settle(plan, reply, ttft_s, asked)
            except Exception as error:
                logger.exception("kvagent failed on a reply; the caller has it unchanged")
                self._emit(Bypassed("an error inside kvagent", error))
            return None

        return settle

    def _answers(self, turn: Turn) -> Recall | None:
        """How calls of ``kvagent_recall`` are answered here; None where the agent does it."""
        recall = self.policy.recall if turn.view.has_own_tool else None
        return recall if recall is not None and recall.answer == "kvagent" else None

    def _is_for_kvagent(self, plan: _Plan, reply: ChatReply, asked: _Asked) -> bool:
        recall = self._answers(plan.turn)
        if recall is None or not reply.complete or asked.times > recall.max_calls:
            return False
        return len(reply.messages) == 1 and is_recalled(reply)

    def _answered(self, plan: _Plan, reply: ChatReply, asked: _Asked) -> _Asked:
        """The model's question and the answer, beside those before."""
        message, policy = reply.messages[0], self.policy.recall
        assert policy is not None
        if asked.times:
            self._own_call(reply.counts)
        most = policy.max_tokens
        left = self._room_left(plan.turn, reply, asked)
        if left is not None:
            most = min(most, left // len(asked_of(message)))

        def recall(handle: str, **part: str) -> str:
            if asked.times >= policy.max_calls:
                raise ValueError("that was asked often enough: go on with what you have")
            return self.recall(handle, namespace=plan.namespace, **part)

        def room(text: str) -> int:
            tokens = count_tokens(text)
            return len(text) if tokens <= most else len(text) * max(0, most) // tokens

        told = exchange(message, recall, room)
        shown = text_of(message) if plan.turn.request.body.get("stream") else ""
        counts = asked.counts if asked.times else reply.counts
        return _Asked((*asked.messages, *told), asked.shown + shown, asked.times + 1, counts)

    def _room_left(self, turn: Turn, reply: ChatReply, asked: _Asked) -> int | None:
        """Tokens of the general tokenizer that fit behind prompt and reply; None: any."""
        if turn.room is None:
            return None
        usage = usage_of(reply.counts) if reply.counts else Usage(None, None, None, None)
        if usage.prompt_tokens is not None:
            taken = usage.prompt_tokens + (usage.completion_tokens or 0)
        else:
            taken = turn.tokens + sum(map(self._weigh, (*asked.messages, *reply.messages)))
        return int((turn.room - taken) / max(1.0, self.meter.scale))

    def _further(self, plan: _Plan, asked: _Asked) -> Call:
        """The same request again, with what the model asked and was told behind it."""
        further = replace(plan, form=plan.form.with_more(asked.messages), events=[])
        return self._call(further, plan.turn.request.raw)

    def _answering(self, plan: _Plan, asked: _Asked, call: Call) -> Flow:
        """The call that tells the model what it asked for."""
        answer: Answer | None = None
        try:
            answer = yield call
            if self._is_too_long(plan, answer):
                asked = replace(asked, messages=without_texts(asked.messages))
                answer = yield self._further(plan, asked)
        finally:
            if answer is None or answer.status >= 400:
                # The caller gets no reply, but the server has the prompt.
                self._settling(plan, _Asked())(ChatReply(counts=dict(asked.counts)), None)
        return _settle_nothing if answer.status >= 400 else self._settling(plan, asked)

    def _ready(
        self, body: bytes, session: str | None
    ) -> Generator[Ask, Any, tuple[_Plan, Call] | None]:
        """The request made ready; None where it is to go out as it came."""
        try:
            plan = yield from self._prepare(body, session)
            return plan, self._call(plan, body)
        except Doubt as doubt:
            self._emit(Bypassed(str(doubt)))
        except Exception as error:
            logger.exception("kvagent failed on a request; it goes out as it came")
            self._emit(Bypassed("an error inside kvagent", error))
        return None

    def _is_too_long(self, plan: _Plan, answer: Answer) -> bool:
        """Whether a request was refused as too long; what that teaches is kept."""
        try:
            return answer.status >= 400 and self._refused(plan, answer.status, answer.error)
        except Exception as error:
            logger.exception("kvagent failed on a refusal; the caller has it unchanged")
            self._emit(Bypassed("an error inside kvagent", error))
            return False

    def _smaller(
        self, refused: Call, body: bytes, session: str | None
    ) -> Generator[Ask, Any, tuple[_Plan, Call] | None]:
        """A request that was refused as too long made smaller; None where it cannot be."""
        if self.policy.mode != "full":
            return None
        smaller = yield from self._ready(body, session)
        return None if smaller is None or smaller[1].body == refused.body else smaller

    def probe(self, model: str | None = None) -> Generator[Fetch, Fetched, None]:
        """Ask the server what it is: yields what to fetch. Nothing to do from the second time on.

        The driver limits the time; a server that does not answer is taken for a plain one.
        """
        with self._lock:
            if not self._to_probe:
                return
            self._to_probe = False
        try:
            server = yield from probe(model)
            self.server = replace(server, template=self._template or server.template)
        except Exception:
            logger.exception("kvagent failed to read what the server says of itself")

    @property
    def to_probe(self) -> bool:
        """Whether the server was not asked yet."""
        return self._to_probe

    def recall(
        self,
        handle: str,
        *,
        lines: str | tuple[int, int] | int | None = None,
        query: str | None = None,
        namespace: str | None = None,
    ) -> str:
        """The original of a text that was shortened, as it was.

        ``lines`` ("120-240", or a pair, from 1) gives only these; ``query`` only the lines that
        hold it, each with its number. ``KeyError`` when the original is not kept (any more),
        ``ValueError`` for lines that it does not have.
        """
        found = self.store.get(self._namespace(namespace), b"original:" + handle.encode())
        if not found:
            raise LostHandle(
                f"kvagent keeps no original under {handle!r}: it was stored elsewhere, in another "
                "namespace, or left the store when it was full"
            )
        return part_of_text(found[0].decode(), lines, query)

    def rewrite(self, body: bytes) -> bytes:
        """What would go out for a recorded request, taking it for answered; raises ``Doubt``."""
        plan = made(self._prepare(body, None))
        for event in plan.events:
            self._emit(event)
        self._settle(plan, ChatReply(), None, _Asked())
        return body if self.policy.mode == "observe" else plan.form.body

    # -- preparing

    def _namespace(self, namespace: str | None) -> str:
        if namespace is not None:
            return namespace
        named = current_session()
        return self.namespace if named is None or named.namespace is None else named.namespace

    def _prepare(self, raw: bytes, session: str | None) -> Generator[Ask, Any, _Plan]:
        named = current_session()
        session = named.id if named else session
        namespace = self._namespace(None)
        found = self._resumables.find(raw, (namespace, session))
        if found is not None:
            try:
                plan = yield from self._planned(raw, session, namespace, *found)
            except Doubt:
                plan = None  # read whole, it may be fine, or it is clearer what is wrong
            if plan is not None:
                return plan
        plan = yield from self._planned(raw, session, namespace, None, b"")
        assert plan is not None
        return plan

    def _planned(
        self,
        raw: bytes,
        session: str | None,
        namespace: str,
        before: Resumable | None,
        added: bytes,
    ) -> Generator[Ask, Any, _Plan | None]:
        """The request made ready; None when it does not simply continue ``before``."""
        if before is not None:
            request = ChatRequest.resume(raw, added, before.count, before.body, before.head_size)
            view = before.view
            start = Match(before.tip, before.consumed, [])
        else:
            request = ChatRequest.parse(raw)
            view = self._reader.view(request)
            start = None
        tree = self.ledger.tree(namespace, request.model)
        raws = [identity(message) for message in request.fresh]
        if before is not None and added[1:-1] != b",".join(raws):
            return None  # written otherwise than the SDK does
        full = self.policy.mode != "safe"
        match = recognise(tree, request.fresh, raws, view, session, full=full, start=start)
        if full and self.policy.pin_head and _values_changed(match, view):
            if before is not None:
                return None
            match = reopened(match, request.fresh)
        if before is not None and (
            match.tip.depth < before.tip.depth or before.answered_otherwise(request.fresh[0])
        ):
            return None
        turn = self._turn(request, view, tree, match, raws, namespace)
        yield from self._staged(turn)
        if turn.revised and not turn.tail and match.tip.parent is not None:
            # What is revised is kept with a message that is sent behind it.
            match = match.back_to(match.tip.parent)
            turn = self._turn(request, view, tree, match, raws, namespace)
            yield from self._staged(turn)
        self._settle_template(turn)
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
        for stage in self.stages:
            if self._runs(stage):
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
    ) -> Turn:
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
            if self.policy.mode != "observe":  # else it goes out whole
                self.store.add(namespace, b"original:" + handle.encode(), text.encode())
            return handle

        limit = self._limits.of_request(request.raw)
        head = view.as_sent()
        begun = match.tip is not tree.root
        before = newest_facts(match.tip) or Facts(0)
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
            policy=self.policy,
            window=self._limits.window(request.model, self.window, limit),
            summaries=self._summaries,
            namespace=namespace,
            count_tokens=count_tokens,
            store_original=store_original,
            resends_reasoning=lambda: self._mender.resends_reasoning(self.server),
            weigh=self._weigh,
            consumed=match.consumed,
            past_tokens=match.tip.tokens if begun else self._head_tokens(head),
            head=head,
            told=dict(enumerate(view.values)),
            rent=before.rent,
            swept=before.swept,
            carry_cost=self.meter.carry_cost,
        )

    def _runs(self, stage: Stage) -> bool:
        if stage is pin_head:
            return self.policy.pin_head is not None
        if stage is echo:
            return self.policy.echo is not None
        return self.policy.mode != "safe"  # other stages change what a model reads

    def _plan(
        self,
        turn: Turn,
        match: Match,
        form: Form,
        raws: Sequence[bytes],
        session: str | None,
        namespace: str,
        before: Resumable | None,
    ) -> _Plan:
        conversation = session or _name_of(turn)
        applied = self.policy.mode != "observe"
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
        return _Plan(turn, match, form, conversation, session, namespace, events, before)

    def _settle_template(self, turn: Turn) -> None:
        """What is added for the chat template's sake: chosen once, then kept."""
        if turn.past_head is not None:
            switches, opening = turn.past_head.switches, turn.past_head.opening
        elif self.policy.mode == "full":
            switches = self._mender.switches(self.server)
            opening = b"" if turn.request.head_size else self._mender.opening(self.server)
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

    def _call(self, plan: _Plan, incoming: bytes) -> Call:
        """The request as it goes out, hints included, which no stage and no memory sees."""
        if self.policy.mode == "observe":
            return Call(incoming, changed=False)
        form, request = plan.form, plan.turn.request
        role = plan.turn.head.key.hex()
        fields = self._hinter.fields(
            self.server, plan.conversation, role, plan.namespace, request.body
        )
        headers = self._hinter.headers(plan.conversation)
        for name in (*fields, *headers):
            plan.events.append(Edited(plan.conversation, "hints", name, 0))
        head, body = plan.turn.head, form.body
        opening = b"" if request.head_size else head.opening
        switched = with_switches(body, request.body, head.switches)
        if switched is not body:
            plan.events.append(Edited(plan.conversation, "mend", "chat_template_kwargs", 0))
        opened = with_opening(switched, opening)
        if opened is not switched:
            plan.events.append(Edited(plan.conversation, "mend", "system_message", 0))
        limited = with_reply(opened, request.body, self._most_of_reply(request.model))
        if limited is not opened:
            plan.events.append(Edited(plan.conversation, "reply", "max_tokens", 0))
        body = added(limited, fields)
        withheld = frozenset((RECALL,)) if self._answers(plan.turn) else frozenset()
        return Call(body, form.changed or body is not form.body, headers, withheld)

    def _most_of_reply(self, model: str) -> int | None:
        if self.policy.mode != "full":
            return None
        return self._limits.reply(model, self._limits.window(model, self.window))

    # -- settling

    def _refused(self, plan: _Plan, status: int, body: bytes | dict[str, Any]) -> bool:
        """Whether an answer says that the request was too long: told, and learned from."""
        overflow = overflow_of(status, body)
        if overflow is None:
            return False
        prompt, window = overflow.prompt_tokens, overflow.window
        self._emit(Overflowed(plan.conversation, status, prompt, overflow.at_least, window))
        self._limits.refused(plan.turn, overflow)
        return True

    def _is_cut(self, plan: _Plan, expected: int, usage: Usage) -> bool:
        """Whether the server cut the front off the prompt without a word; it is told if so."""
        turn = plan.turn
        self._limits.answered(turn.request.model, usage)
        if usage.prompt_tokens is None or usage.prompt_tokens >= expected:
            return False  # it grew as it should: nothing has to be counted
        # Without tools, reasoning and pictures: a template may leave them out in good faith.
        standing = (
            *turn.request.messages[: turn.request.head_size],
            *(each.sent for each in turn.standing()),
        )
        compared = self.meter.calibrated > 0
        least = sum(count_tokens(shown({**each, "content": text_of(each)})) for each in standing)
        least = int(least * min(1.0, self.meter.scale)) if compared else least
        if not self._limits.cut(turn, least, usage, compared=compared):
            return False
        window = usage.prompt_tokens
        self._emit(
            Overflowed(plan.conversation, 200, least, at_least=True, window=window, silent=True)
        )
        return True

    def _settle(self, plan: _Plan, reply: ChatReply, ttft_s: float | None, asked: _Asked) -> None:
        turn = plan.turn
        usage = usage_of(reply.counts) if reply.counts else Usage(None, None, None, None)
        if reply.counts and self.server is not None:
            due = turn.past.facts is not None and not plan.broken
            self.server = learn(self.server, reply.counts, hit_due=due)
        if reply.error is not None:
            self._refused(plan, 200, {"error": reply.error})
        counted = usage.prompt_tokens is not None
        added: dict[Part, int] = {}
        total = turn.past_tokens
        if turn.past is turn.tree.root:
            if counted:  # what a message weighs until this count corrects it
                total = self.meter.tokens("head", _head_bytes(turn.head))
            added["head"] = total
        sent: list[Sent] = []
        for fresh in turn.tail:
            part, before = part_of(fresh.role), () if fresh.left_out else fresh.before
            hidden = sum(map(self._weigh, before))
            own = self.meter.tokens(part, fresh.form) if counted else turn.weight(fresh) - hidden
            added[part] = added.get(part, 0) + own  # the hidden grew with the turn before
            total += own + hidden
            sent.append(
                Sent(fresh.meaning, fresh.role, fresh.raw, fresh.sent, fresh.noted, total, own)
            )
        self._account(plan, usage_of(asked.counts) if asked.counts else usage, added)
        told = sum(map(self._weigh, asked.messages))
        if asked.times:
            self._own_call(reply.counts)
            added["tool"] = added.get("tool", 0) + told
        elif not plan.broken and not self._is_cut(plan, (total + turn.past_tokens) // 2, usage):
            self._calibrate(turn, usage)
        facts, events = self.meter.finish(
            plan.conversation,
            _facts_before(turn),
            added,
            usage,
            ttft_s,
            self._limits.window(turn.request.model, self.window),
            again=not turn.tail,
            server=self.server,
            whole=not plan.broken and not turn.revised,
        )
        facts = replace(facts, rent=turn.rent, swept=turn.swept)
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
        self._write_ahead(plan, tip, sum(facts.growths) / max(1, len(facts.growths)))
        record = resumable(plan.form, turn, plan.match, (plan.namespace, plan.session), tip)
        if record is not None:
            self._resumables.keep(record, instead_of=plan.before)
        for event in events:
            self._emit(event)

    def _write_ahead(self, plan: _Plan, tip: Entry, growth: float) -> None:
        """Have a narrative written in the background, if one will be needed soon."""
        turn = plan.turn
        if self._summaries.summarize is None or not self._runs(compact) or tip is turn.tree.root:
            return
        consumed = consumed_until(plan.match, turn)
        after = replace(turn, past=tip, past_head=tip.head, past_tokens=tip.tokens)
        after.tail, after.revised, after.consumed, after.tiers = [], {}, consumed, None
        due = ahead(after, growth)
        if due is not None:
            self._summaries.start(plan.namespace, *due)

    def _account(self, plan: _Plan, usage: Usage, added: Mapping[Part, int]) -> None:
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
        without = max(0, prefilled + saved_tokens(edits) - cost)
        freed = sum(edit.freed_tokens for edit in edits)
        self.meter.account.request(prefilled, without, freed, cost)

    def _head_tokens(self, head: Head) -> int:
        name = head.key
        tokens = self._heads.get(name)
        if tokens is None:
            tokens = self._heads[name] = count_tokens(_head_bytes(head).decode())
            while len(self._heads) > _HEADS:
                self._heads.pop(next(iter(self._heads)), None)
        return int(tokens * self.meter.scale)

    def _calibrate(self, turn: Turn, usage: Usage) -> None:
        """Compare the estimates that decide about room with what the server counted."""
        known = turn.past is turn.tree.root or turn.past.facts is not None
        if usage.prompt_tokens is None or not turn.tail or not known or turn.revised:
            return
        weighed = all(fresh.weighed is not None for fresh in turn.tail)
        if weighed or self.meter.calibrated < _CALIBRATIONS:
            grown = usage.prompt_tokens - turn.past_tokens
            self.meter.calibrate(sum(map(turn.weight, turn.tail)), grown)

    def _own_call(self, counts: Mapping[str, Any]) -> None:
        if counts:
            self.meter.account.own(usage_of(counts))

    def _weigh(self, message: Mapping[str, Any]) -> int:
        """What a message takes of the window: counted by a general tokenizer, then corrected."""
        return _MESSAGE_TOKENS + int(count_tokens(shown(message)) * self.meter.scale)

    def _emit(self, event: Event) -> None:
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            logger.exception("on_event raised; the request goes on")


def _template(file: Path | None) -> str | None:
    """The text of the policy's template; wrong settings are told at once, not at the first turn."""
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"Policy.template: cannot read {file}: {error}") from error


def _facts_before(turn: Turn) -> Facts | None:
    """What is known of the newest answered turn that this one continues, without what was freed."""
    facts = newest_facts(turn.past)
    freed = turn.past.tokens - turn.past_tokens if turn.revised else 0
    if not freed or facts is None or facts.prompt_tokens is None:
        return facts
    return replace(facts, prompt_tokens=max(0, facts.prompt_tokens - freed))


def _head_bytes(head: Head) -> bytes:
    return b"".join((*head.system, head.tools or b""))


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
