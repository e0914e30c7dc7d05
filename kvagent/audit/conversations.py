"""Which requests of a log belong together?

By content: a request continues the conversation whose messages it repeats, also where the head or a
message in mid-history changed, for that is the fault to be found. By the transcript's ids where it
has them. Of each line of requests only the last one is held, and of very many lines those of late.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Literal, NamedTuple

import orjson

from kvagent.audit.changes.moved import is_part_moved
from kvagent.audit.history import SUMMARY_CHARS, became, message_text, tells_summary
from kvagent.audit.recent import Recent
from kvagent.audit.sent import Known, Reader, Snapshot
from kvagent.audit.transcript import Request
from kvagent.chat import calls_of

Kind = Literal["first", "grown", "again", "branched", "changed", "compacted"]
"""What a request is beside the one before it in its branch.

``first``: it begins a conversation. ``grown``: everything that was sent stands in front of what is
new. ``again``: nothing is new, a retry. ``branched``: it goes back and continues otherwise; what
was sent before in another branch is not sent again behind that place. ``changed``: something in
front of what is sent again differs: an edit, a removal, an insertion. ``compacted``: the history
was replaced by a summary. A head that differs is none of these; see ``Placed.head_changed``.
"""

# Bytes of the last requests that are held, and how many places in conversations.
_ROOM = 16 << 20
_PLACES = 100_000

# A text of a call's arguments that is the task of another agent is this long.
_TASK_CHARS = 30

# In so many characters a text says that it is a summary; it names so much of what it stands for.
_BEGINNING = 200
_IDENTIFIER = re.compile(r"[\w./:-]*[\d_./:-][\w./:-]{4,}")
_SHARED_IDENTIFIERS = 3
_LOOK_BACK = 16


class Placed(NamedTuple):
    """A request and its place."""

    request: Request
    snapshot: Snapshot
    conversation: int
    """From 0, in the order in which conversations begin."""
    branch: int
    """From 0 within the whole transcript; a conversation begins with a branch of its own."""
    number: int
    """Which request of the conversation it is, from 1."""
    kind: Kind
    before: Snapshot | None
    """What was sent before in this branch, or where it left: None for the first request, or where
    that was so long ago that it is not held."""
    left: int | None
    """The branch of ``before``: its own, or the one that it left."""
    common: int
    """Messages, from the front, whose bytes are those of ``before``."""
    head_changed: bool
    """Whether system messages, tools or options are not those that were sent before."""
    only_grew: bool
    """Whether it begins with all that was sent before, byte for byte."""
    parent: int | None = None
    """The conversation in which a call asked for this one."""


@dataclass(slots=True)
class _Conversation:
    number: int
    session: str | None
    requests: int = 0


@dataclass(slots=True)
class _Branch:
    number: int
    conversation: _Conversation
    last: Snapshot
    replies: Sequence[bytes] = ()
    """The names of what came back."""


_Found = tuple[_Branch, Kind, _Branch | None, int | None]
# The branch that a request is put into, what it is there, the branch with what was sent before, and
# the conversation that asked for it.


class Conversations:
    """Places one request after the other, in the order in which they were sent."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._branches: Recent[int, _Branch] = Recent(_ROOM)
        # The chained names of a branch's messages, and of a reply behind them: the branch.
        self._places: Recent[int, tuple[int, _Conversation]] = Recent(_PLACES)
        # Replies and results: the branch that was sent them last.
        self._owners: Recent[bytes, int] = Recent(_PLACES)
        # Long texts in the arguments of calls: the conversation.
        self._asked: Recent[int, int] = Recent(_PLACES >> 2)
        self._sessions: Recent[str, _Conversation] = Recent(_PLACES >> 2)
        self._next_conversation = 0
        self._next_branch = 0

    @property
    def count(self) -> int:
        """How many conversations there are by now."""
        return self._next_conversation

    def place(self, request: Request) -> Placed:
        """The place of the next request."""
        new = self._reader.read(request)
        replies = [self._reader.known(reply) for reply in request.replies]
        placed = self._continued(request, new, replies)
        if placed is None:
            placed = self._begun(request, new)
        branch, kind, origin, parent = placed
        before, left = (None, None) if origin is None else (origin.last, origin.number)
        common, head_changed, only_grew = 0, False, False
        if before is not None:
            common = _common(before.messages, new.messages)
            head_changed = _head_changed(before, new, common)
            only_grew = common == len(before.messages) and not head_changed
        fresh = new.messages[common:]
        branch.last, branch.replies = new, [reply.name for reply in replies]
        branch.conversation.requests += 1
        self._remember(branch, request, fresh, replies)
        return Placed(
            request,
            new,
            branch.conversation.number,
            branch.number,
            branch.conversation.requests,
            kind,
            before,
            left,
            common,
            head_changed,
            only_grew,
            parent,
        )

    def _continued(
        self, request: Request, new: Snapshot, replies: Sequence[Known]
    ) -> _Found | None:
        """The branch that the request continues, or one that leaves it."""
        body = new.body or new.messages
        depth, branch, conversation = self._deepest(request, body, new.links)
        if branch is not None and conversation is not None:
            old = branch.last.links
            if _begins(new.links, old):
                if len(body) > len(old):
                    return branch, "grown", branch, None
                if not _answers_differ(branch, body, replies):
                    return branch, "again", branch, None
                return None
        elif conversation is not None and _is_told(body[:depth]):
            # What was sent last in it is not held any more.
            return self._new_branch(conversation, new), "grown", None, None
        owner = self._owner(request, body)
        asked = None if depth else self._asked_otherwise(request, new)
        for candidate in (owner, branch, asked):
            if candidate is None:
                continue
            kind = became(candidate.last, new)
            if kind is not None:
                return candidate, kind, candidate, None
        if branch is not None and _is_told(body[:depth]):
            other = self._new_branch(branch.conversation, new)
            return other, "branched", branch, None
        if owner is not None and request.conversation is not None:
            other = self._new_branch(owner.conversation, new)
            return other, "branched", owner, None
        return self._compacted(request, new)

    def _deepest(
        self, request: Request, body: Sequence[Known], links: Sequence[int]
    ) -> tuple[int, _Branch | None, _Conversation | None]:
        """How many messages of the body are known in their places, and where."""
        found = self._look(request.conversation, links, 0)
        if found is None and request.conversation is not None:
            if self._sessions.get(request.conversation) is None:
                # An id that each run or request has of its own says nothing.
                found = self._look(None, links, _first_answer(body) + 1)
        if found is None:
            return 0, None, None
        depth, (number, conversation) = found
        return depth, self._branches.get(number), conversation

    def _look(
        self, session: str | None, links: Sequence[int], least: int
    ) -> tuple[int, tuple[int, _Conversation]] | None:
        for depth in range(len(links), max(least, 1) - 1, -1):
            found = self._places.get(hash((session, links[depth - 1])))
            if found is not None:
                return depth, found
        return None

    def _owner(self, request: Request, body: Sequence[Known]) -> _Branch | None:
        """The branch that was sent most of the answers and results in the body, or gave them."""
        own = [message.gist for message in body if message.is_own]
        votes = Counter(owner for name in own if (owner := self._owners.get(name)) is not None)
        for number, count in votes.most_common():
            branch = self._branches.get(number)
            if branch is None:
                continue
            if branch.conversation.session != request.conversation:
                continue
            if count * 2 >= len(own) or request.conversation is not None:
                return branch
            if 1 < count == sum(message.is_own for message in branch.last.body):
                return branch  # all that it was sent is sent again
        return None

    def _asked_otherwise(self, request: Request, new: Snapshot) -> _Branch | None:
        """The branch with nothing but a question, from which a reminder moved on."""
        body = new.body
        if not _is_told(body):
            return None
        for branch in self._branches.values()[: -_LOOK_BACK - 1 : -1]:
            old = branch.last
            if len(old.body) != 1 or branch.conversation.session != request.conversation:
                continue
            if _same_agent(old, new) and is_part_moved(old.body[0], body[0], body[1:]):
                return branch
        return None

    def _compacted(self, request: Request, new: Snapshot) -> _Found | None:
        """The branch whose history a summary in the body stands for."""
        body = new.body
        texts = map(message_text, body[:3])
        text = next((text for text in texts if tells_summary(text[:_BEGINNING])), "")
        if len(text) < SUMMARY_CHARS:
            return None
        told = set(_IDENTIFIER.findall(text))
        if len(told) < _SHARED_IDENTIFIERS:
            return None
        for branch in self._branches.values()[: -_LOOK_BACK - 1 : -1]:
            old = branch.last
            if branch.conversation.session != request.conversation or not _same_agent(old, new):
                continue
            if len(old.body) <= len(body):
                continue
            sent = "\n".join(message.raw.decode(errors="replace") for message in old.body)
            if sum(identifier in sent for identifier in told) >= max(
                _SHARED_IDENTIFIERS, len(told) * 2 // 3
            ):
                return branch, "compacted", branch, None
        return None

    def _begun(self, request: Request, new: Snapshot) -> _Found:
        conversation = _Conversation(self._next_conversation, request.conversation)
        self._next_conversation += 1
        if request.conversation is not None:
            self._sessions.put(request.conversation, conversation)
        parent = None
        user = next((message for message in new.body if message.role == "user"), None)
        if user is not None:
            parent = self._asked.get(hash(message_text(user).strip()))
        return self._new_branch(conversation, new), "first", None, parent

    def _new_branch(self, conversation: _Conversation, new: Snapshot) -> _Branch:
        branch = _Branch(self._next_branch, conversation, new)
        self._next_branch += 1
        return branch

    def _remember(
        self,
        branch: _Branch,
        request: Request,
        fresh: Sequence[Known],
        replies: Sequence[Known],
    ) -> None:
        self._branches.put(branch.number, branch, branch.last.size)
        place = branch.number, branch.conversation
        links = branch.last.links
        for session in dict.fromkeys((request.conversation, None)):
            # What is behind the last place that this branch already has.
            for link in reversed(links):
                key = hash((session, link))
                if self._places.get(key) == place:
                    break
                self._places.put(key, place)
            for reply in replies if links else ():
                end = hash((links[-1], reply.name))
                self._places.put(hash((session, end)), place)
        new = request.messages[len(request.messages) - len(fresh) :]
        said = zip((*fresh, *replies), (*new, *request.replies), strict=True)
        for known, message in said:
            if known.is_own:
                self._owners.put(known.gist, branch.number)
                if known.role == "assistant":
                    for text in _asked_texts(message):
                        self._asked.put(hash(text.strip()), branch.conversation.number)


def _common(old: Sequence[Known], new: Sequence[Known]) -> int:
    # Most requests only grow, and what is known is the same object.
    if len(old) <= len(new) and all(map(is_, old, new)):
        return len(old)
    common = 0
    for one, other in zip(old, new, strict=False):
        if one is not other and one.raw != other.raw:
            break
        common += 1
    return common


def _head_changed(old: Snapshot, new: Snapshot, common: int) -> bool:
    return (
        old.head != new.head
        or common < new.head
        or old.tools != new.tools
        or old.options != new.options
    )


def _answers_differ(branch: _Branch, body: Sequence[Known], replies: Sequence[Known]) -> bool:
    """Whether a request with nothing but a question is another one that asks the same."""
    if _is_told(body) or not branch.replies or not replies:
        return False
    return not {reply.name for reply in replies} & set(branch.replies)


def _is_told(body: Sequence[Known]) -> bool:
    """Whether a model has answered in it: a question alone may be asked in many conversations."""
    return any(message.role == "assistant" for message in body)


def _first_answer(body: Sequence[Known]) -> int:
    roles = [message.role for message in body]
    return roles.index("assistant") if "assistant" in roles else len(body)


def _begins(links: Sequence[int], old: Sequence[int]) -> bool:
    """Whether a body begins with all that was sent before."""
    return len(links) >= len(old) and (not old or links[len(old) - 1] == old[-1])


def _same_agent(old: Snapshot, new: Snapshot) -> bool:
    one, other = old.messages[: old.head], new.messages[: new.head]
    return old.tools == new.tools and [m.name for m in one] == [m.name for m in other]


def _asked_texts(message: Mapping[str, Any]) -> list[str]:
    """The long texts in the arguments of a message's calls."""
    texts = []
    for call in calls_of(message):
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if not isinstance(arguments, str) or len(arguments) < _TASK_CHARS:
            continue
        try:
            values = orjson.loads(arguments)
        except ValueError:
            continue
        if isinstance(values, dict):
            texts += [
                value
                for value in values.values()
                if isinstance(value, str) and len(value) >= _TASK_CHARS
            ]
    return texts
