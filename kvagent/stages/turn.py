"""What does a stage see of a request, and what may it change?

The messages sent before are no part of the tail: a stage that sets ``Fresh.message`` need not take
care that the prefix stays. To change what was sent is a separate act, ``Turn.revise``: declared,
priced, and remembered for the turns to come.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kvagent.chat import ChatRequest
from kvagent.entry import NOTHING_TOLD, Entry, Head, Swept, Told
from kvagent.events import Cause
from kvagent.fingerprint import identity
from kvagent.flow import Ask
from kvagent.head import HeadView
from kvagent.ledger import Tree
from kvagent.own import Own
from kvagent.policy import Policy
from kvagent.pricing import Rent, worth
from kvagent.recall import RECALL
from kvagent.revision import Revision
from kvagent.standing import Standing
from kvagent.summaries import Summaries

if TYPE_CHECKING:
    from kvagent.compaction.tiers import Tier


@dataclass(slots=True)
class Fresh:
    """A message that was not sent before; stages set ``message`` to what shall be sent."""

    index: int
    """Its place among the messages of the request."""
    incoming: Mapping[str, Any]
    raw: bytes
    meaning: bytes
    message: Mapping[str, Any]
    noted: bool = False
    before: tuple[Mapping[str, Any], ...] = ()
    """Messages that the agent never saw, and that the server had in front of this one."""
    left_out: bool = False
    """Whether it does not go out at all: a record of old turns stands in its place."""
    weighed: tuple[Mapping[str, Any], int] | None = None
    """The message whose tokens were estimated last, and how many they were."""

    @property
    def role(self) -> str:
        return str(self.incoming["role"])

    @property
    def form(self) -> bytes:
        """The bytes of the message alone; those that came, where nothing was changed."""
        if self.left_out:
            return b""
        return self.raw if self.message is self.incoming else identity(self.message)

    @property
    def sent(self) -> bytes:
        """The bytes that go out."""
        if self.left_out or not self.before:
            return self.form
        return b",".join((*map(identity, self.before), self.form))


@dataclass(frozen=True, slots=True)
class Edit:
    """What was changed and why; becomes an ``Edited`` event."""

    stage: str
    cause: Cause | str
    index: int
    count: int = 1
    saved_tokens: int = 0
    detail: str = ""
    freed_tokens: int = 0
    """How much shorter the prompt is from now on."""
    cost_tokens: int = 0
    """Cached tokens behind the edit, which must be prefilled again."""
    expected_tokens: int | None = None
    """Prefill that it is expected to save in the turns to come, its cost deducted."""


@dataclass(slots=True)
class Turn:
    """One request on its way through the stages."""

    request: ChatRequest
    view: HeadView
    tree: Tree
    past: Entry
    """Where the conversation stands; the tree's root for a new one."""
    past_head: Head | None
    """The head that it was sent under with these instructions, else the last one."""
    past_told: Told
    """The volatile values that the model knows before this request."""
    tail: list[Fresh]
    policy: Policy
    window: int | None
    """Tokens that prompt and reply may have together; None: not known."""
    summaries: Summaries
    """Where narratives of old turns come from."""
    namespace: str
    count_tokens: Callable[[str], int]
    store_original: Callable[[str], str]
    """Keeps the original of a text that will be shortened; returns the handle to get it back."""
    resends_reasoning: Callable[[], bool]
    """Whether the chat template keeps the prefix when old reasoning is sent again."""
    weigh_text: Callable[[str], int]
    """Estimated tokens of a text in the prompt: ``count_tokens``, corrected by the server."""
    weigh: Callable[[Mapping[str, Any]], int]
    """Estimated tokens of a message in the prompt."""
    own: Own
    """The request in the agent's own form, as far as it is known."""
    consumed: Sequence[int]
    """Per depth of ``past``, how many messages behind the head its path covers."""
    head: Head
    """The head to be sent."""
    past_tokens: int
    """Estimated tokens of what stands in front of the tail, head included."""
    told: Told = field(default_factory=lambda: NOTHING_TOLD)
    """The volatile values that the model knows after this request."""
    notes: list[str] = field(default_factory=list)
    """Lines that tell the model what changed; they end the newest user or tool message."""
    edits: list[Edit] = field(default_factory=list)
    revised: dict[int, bytes] = field(default_factory=dict)
    """By depth, new forms of messages that were sent before; empty where one is left out."""
    tiers: tuple[Tier, ...] | None = None
    """The narratives in the record of old turns; None: those that were there before."""
    rent: Rent = field(default_factory=Rent)
    """What old results have cost that could have been cleared."""
    swept: Swept = field(default_factory=Swept)
    """And how many there are."""
    carry_cost: float | None = None
    """What it costs to carry a cached token for a turn, in prefilled tokens; None: not known."""
    floor: int | None = None
    """Estimated tokens that clearing cannot free, where that was worked out."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """All messages as the agent sent them."""
        return self.request.messages

    def had_back(self, text: str) -> str:
        """How a reader of this prompt gets a text back that will be shortened: its original is kept.

        A call, where the model has the tool for it; else the handle, which serves the agent.
        """
        handle = self.store_original(text)
        return f'{RECALL}("{handle}")' if self.view.has_own_tool else handle

    @property
    def tokens(self) -> int:
        """Estimated tokens of the prompt as it would go out now."""
        return self.past_tokens + sum(map(self.weight, self.tail))

    def weight(self, fresh: Fresh) -> int:
        """Estimated tokens of a new message in the form in which it would go out now."""
        if fresh.left_out:
            return 0
        if fresh.weighed is None or fresh.weighed[0] is not fresh.message:
            tokens = sum(map(self.weigh, (*fresh.before, fresh.message)))
            fresh.weighed = fresh.message, tokens
        return fresh.weighed[1]

    @property
    def revision(self) -> Revision | None:
        """The forms that stand in place of those first sent, those of this turn included."""
        if not self.revised:
            return self.past.revision
        return (self.past.revision or Revision({})).with_more(self.revised, self.tiers)

    @property
    def room(self) -> int | None:
        """Tokens that the prompt may have, so that the reply has room as well; None: not known."""
        if self.window is None:
            return None
        said = (self.request.body.get(key) for key in ("max_completion_tokens", "max_tokens"))
        reply = next((n for n in said if isinstance(n, int) and not isinstance(n, bool)), None)
        narrated = self.summaries.summarize is not None
        return self.policy.room(self.window, reply, narrated=narrated)

    def standing(self) -> list[Standing]:
        """All messages behind the head as they would go out now; costs as much as the history."""
        found: list[Standing] = []
        head_size = self.request.head_size
        before = self.past.revision.forms if self.past.revision else {}
        for entry in self.past.path():
            form = self.revised.get(entry.depth, before.get(entry.depth, entry.sent))
            if not form:
                continue
            came = orjson.loads(entry.raw)
            unseen: list[Mapping[str, Any]] = []
            sent = came
            if form is not entry.raw:
                *unseen, sent = orjson.loads(b"[" + form + b"]")
            tokens = entry.own if form is entry.sent else self.weigh(sent)
            index = head_size + self.consumed[entry.depth] - 1
            cleared = entry.depth in before or entry.depth in self.revised
            found.append(Standing(index, came, sent, tokens, cleared, entry.depth, tuple(unseen)))
        for fresh in self.tail:
            if not fresh.left_out:
                tokens = self.weight(fresh) - sum(map(self.weigh, fresh.before))
                found.append(
                    Standing(
                        fresh.index, fresh.incoming, fresh.message, tokens, before=fresh.before
                    )
                )
        return found

    def originals(self) -> list[Standing]:
        """All messages behind the head as the agent sent them, also those that stand no more."""
        head_size = self.request.head_size
        found = [
            Standing(
                head_size + self.consumed[entry.depth] - 1,
                came := orjson.loads(entry.raw),
                came,
                entry.own,
                depth=entry.depth,
            )
            for entry in self.past.path()
        ]
        found += (Standing(f.index, f.incoming, f.incoming, self.weight(f)) for f in self.tail)
        return found

    def first_form(self, standing: Standing) -> Mapping[str, Any]:
        """The form in which a message was first sent, whatever became of it."""
        if not standing.depth:
            return standing.sent
        form = self.past.path()[standing.depth - 1].sent
        message: Mapping[str, Any] = orjson.loads(b"[" + form + b"]")[-1]
        return message

    def last_sent(self) -> dict[str, Any] | None:
        """The request as it was last sent, as far as it is in the server's cache; None: never."""
        head = self.past_head
        if head is None or self.past is self.tree.root:
            return None
        opening = [] if self.request.head_size or not head.opening else [head.opening]
        messages = b",".join((*opening, *head.system, *self.past.forms()))
        body = {key: value for key, value in self.request.body.items() if key != "tools"}
        body["messages"] = orjson.loads(b"[" + messages + b"]")
        if head.tools:
            body["tools"] = orjson.loads(head.tools)
        if head.switches:
            own = body.get("chat_template_kwargs") or {}
            body["chat_template_kwargs"] = {**orjson.loads(head.switches), **own}
        return body

    @property
    def past_before(self) -> int:
        """Estimated tokens of what was last sent, as it was before this turn revised it."""
        return self.past.tokens

    def expected(self, freed: int, cost: int) -> int | None:
        """Prefill that an edit should save in the turns to come; None: what is carried has no price.

        Below 0 it costs more than it saves, and room alone is why it was made.
        """
        carry = self.carry_cost
        if self.policy.clear is not None and self.policy.clear.carry_cost is not None:
            carry = self.policy.clear.carry_cost
        if carry is None:
            return None
        return round(worth(freed, cost, carry, self.rent.turns_left))

    def revise(self, standing: Standing, message: Mapping[str, Any] | None) -> int:
        """Give a message that stands another form, or none; returns how many tokens that frees.

        One that was sent before breaks the prefix there, and stays so in later turns.
        """
        form = b""
        if message is None:
            freed = standing.tokens + sum(map(self.weigh, standing.before))
        else:
            freed = standing.tokens - self.weigh(message)
            form = b",".join(map(identity, (*standing.before, message)))
        if standing.depth:
            self.revised[standing.depth] = form
            self.past_tokens -= freed
        else:
            fresh = next(fresh for fresh in self.tail if fresh.index == standing.index)
            fresh.left_out = message is None
            fresh.message = fresh.message if message is None else message
        return freed

    @property
    def note_bearer(self) -> Fresh | None:
        """The newest fresh user or tool message: where notes go."""
        return next((f for f in reversed(self.tail) if f.role in ("user", "tool")), None)


Stage = Callable[[Turn], Generator[Ask, Any, None] | None]
"""A stage is a callable: it looks at the turn and changes its tail.

One that needs a model is a generator: it yields an ``Ask`` and is sent what came of it."""
