"""What happens to one chat request?

The engine does no network I/O. A turn is one generator: it yields the calls to be made and is sent
their answers, so one code serves sync clients, async clients and proxies. The caller's request
comes first: any error in here lets the original bytes out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from kvagent.backends import Fetch, Fetched, Server, Usage, learn, overflow_of, probe, usage_of
from kvagent.chat import ChatReply, Doubt, text_of
from kvagent.events import Bypassed, Edited, Event, Overflowed
from kvagent.flow import Answer, Ask, Call, Flow, Settle, made
from kvagent.hints import Hinter, added
from kvagent.ledger import Ledger
from kvagent.limits import Limits, with_reply
from kvagent.mender import with_opening, with_switches
from kvagent.meter import Meter
from kvagent.options import callable_of, policy_of, stages_of
from kvagent.plan import Asked, Plan
from kvagent.planner import Planner
from kvagent.policy import Policy, Recall
from kvagent.recall import (
    RECALL,
    LostHandle,
    asked_of,
    exchange,
    is_recalled,
    without_texts,
)
from kvagent.recall import part_of as part_of_text
from kvagent.session import current_session
from kvagent.settler import Settler
from kvagent.stages import Stage, Turn
from kvagent.stores import Store, open_store
from kvagent.summaries import Summaries, Summarize
from kvagent.tokens import count_tokens
from kvagent.weigher import Weigher
from kvagent.weight import kv_bytes

logger = logging.getLogger("kvagent")


def _settle_nothing(reply: ChatReply, ttft_s: float | None) -> None:
    """For requests that kvagent let through."""


class Engine:
    """The middleware itself: one for a client, or one for many clients of one server.

    ``store`` is None (in memory), a path of a SQLite file, or a ``Store``. ``namespace`` names the
    tenant: what one namespace remembers never reaches another. ``on_event`` is called with each
    event, from the thread that made the request. ``summarizer`` is asked for a narrative of old
    turns when they have to leave the prompt, such as ``kvagent_openai.Summarizer``; without one,
    facts alone stand in their place. ``TypeError`` for what cannot be called so.
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
        self.policy = policy_of(policy)
        self.store = open_store(store)
        self.namespace = namespace
        self.on_event = callable_of("on_event", on_event)
        self.stages = stages_of(stages)
        self.ledger = Ledger(self.store, self.policy.memory_bytes)
        self._template = _template(self.policy.template)
        kv = self.policy.kv
        self.meter = Meter(self.policy.warn_at, None if kv is None else kv_bytes(kv))
        self.server: Server | None = None
        """What the server is and how large its window; None until it was asked."""
        self._hinter = Hinter(self.policy.hints)
        self._limits = Limits()
        self._weigher = Weigher(self.meter)
        asked = callable_of("summarizer", summarizer)
        self._summaries = Summaries(self.store, asked, self._own_call)
        self._planner = Planner(
            self.policy,
            self.stages,
            self.ledger,
            self.meter,
            self._weigher,
            self._limits,
            self._summaries,
        )
        self._settler = Settler(
            self._planner, self.meter, self._weigher, self._limits, self._summaries
        )
        self._to_probe = self.policy.probe
        self._lock = Lock()

    @property
    def window(self) -> int | None:
        """Tokens one conversation may have: as the policy says, else as the server says."""
        return self._planner.window(self.server)

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
        return self._settling(plan, Asked())

    def _settling(self, plan: Plan, asked: Asked) -> Settle:
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

    def _is_for_kvagent(self, plan: Plan, reply: ChatReply, asked: Asked) -> bool:
        recall = self._answers(plan.turn)
        if recall is None or not reply.complete or asked.times > recall.max_calls:
            return False
        return len(reply.messages) == 1 and is_recalled(reply)

    def _answered(self, plan: Plan, reply: ChatReply, asked: Asked) -> Asked:
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
        return Asked((*asked.messages, *told), asked.shown + shown, asked.times + 1, counts)

    def _room_left(self, turn: Turn, reply: ChatReply, asked: Asked) -> int | None:
        """Tokens of the general tokenizer that fit behind prompt and reply; None: any."""
        if turn.room is None:
            return None
        usage = usage_of(reply.counts) if reply.counts else Usage(None, None, None, None)
        if usage.prompt_tokens is not None:
            taken = usage.prompt_tokens + (usage.completion_tokens or 0)
        else:
            taken = turn.tokens + sum(
                map(self._weigher.message, (*asked.messages, *reply.messages))
            )
        return int((turn.room - taken) / max(1.0, self.meter.scale))

    def _further(self, plan: Plan, asked: Asked) -> Call:
        """The same request again, with what the model asked and was told behind it."""
        further = replace(plan, form=plan.form.with_more(asked.messages), events=[])
        return self._call(further, plan.turn.request.raw)

    def _answering(self, plan: Plan, asked: Asked, call: Call) -> Flow:
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
                self._settling(plan, Asked())(ChatReply(counts=dict(asked.counts)), None)
        return _settle_nothing if answer.status >= 400 else self._settling(plan, asked)

    def _ready(
        self, body: bytes, session: str | None
    ) -> Generator[Ask, Any, tuple[Plan, Call] | None]:
        """The request made ready; None where it is to go out as it came."""
        try:
            plan = yield from self._planned(body, session)
            return plan, self._call(plan, body)
        except Doubt as doubt:
            self._emit(Bypassed(str(doubt)))
        except Exception as error:
            logger.exception("kvagent failed on a request; it goes out as it came")
            self._emit(Bypassed("an error inside kvagent", error))
        return None

    def _is_too_long(self, plan: Plan, answer: Answer) -> bool:
        """Whether a request was refused as too long; what that teaches is kept."""
        try:
            return answer.status >= 400 and self._refused(plan, answer.status, answer.error)
        except Exception as error:
            logger.exception("kvagent failed on a refusal; the caller has it unchanged")
            self._emit(Bypassed("an error inside kvagent", error))
            return False

    def _smaller(
        self, refused: Call, body: bytes, session: str | None
    ) -> Generator[Ask, Any, tuple[Plan, Call] | None]:
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

    def know(self, server: Server) -> None:
        """Take this for what the server is; it is not asked any more."""
        with self._lock:
            self._to_probe = False
        self.server = replace(server, template=self._template or server.template)

    def share_hints(self, other: Engine) -> None:
        """Pin slots together with another engine whose requests the same server answers."""
        self._hinter = other._hinter

    def read_all(self, model: str) -> None:
        """Have in memory all that the store knows of conversations with a model.

        For a store that holds one agent's: then an edit of what was sent is told as one.
        """
        self.ledger.tree(self._namespace(None), model).read_all()

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
        plan = made(self._planned(body, None))
        for event in plan.events:
            self._emit(event)
        self._settle(plan, ChatReply(), None, Asked())
        return body if self.policy.mode == "observe" else plan.form.body

    def _namespace(self, namespace: str | None) -> str:
        if namespace is not None:
            return namespace
        named = current_session()
        return self.namespace if named is None or named.namespace is None else named.namespace

    def _planned(self, body: bytes, session: str | None) -> Generator[Ask, Any, Plan]:
        named = current_session()
        session = named.id if named else session
        return self._planner.plan(body, session, self._namespace(None), self.server)

    def _call(self, plan: Plan, incoming: bytes) -> Call:
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

    def _refused(self, plan: Plan, status: int, body: bytes | dict[str, Any]) -> bool:
        """Whether an answer says that the request was too long: told, and learned from."""
        overflow = overflow_of(status, body)
        if overflow is None:
            return False
        prompt, window = overflow.prompt_tokens, overflow.window
        self._emit(Overflowed(plan.conversation, status, prompt, overflow.at_least, window))
        self._limits.refused(plan.turn, overflow)
        return True

    def _settle(self, plan: Plan, reply: ChatReply, ttft_s: float | None, asked: Asked) -> None:
        if reply.counts and self.server is not None:
            due = plan.turn.past.facts is not None and not plan.broken
            self.server = learn(self.server, reply.counts, hit_due=due)
        if reply.error is not None:
            self._refused(plan, 200, {"error": reply.error})
        for event in self._settler.settle(plan, reply, ttft_s, asked, self.server):
            self._emit(event)

    def _own_call(self, counts: Mapping[str, Any]) -> None:
        self._settler.own_call(counts)

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
