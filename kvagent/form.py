"""Which bytes go out, and can the next request go on from them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.chat import ChatRequest
from kvagent.entry import Entry
from kvagent.fingerprint import identity
from kvagent.recognise import Match
from kvagent.resume import Resumable, split
from kvagent.revision import forms_of
from kvagent.stages import Turn


@dataclass(frozen=True, slots=True)
class Form:
    """The body to be sent, and where its list of messages ends, and that of the one that came."""

    body: bytes
    came_end: int | None
    went_end: int | None
    changed: bool

    def with_more(self, messages: Sequence[Mapping[str, Any]]) -> Form:
        """The body with messages behind those that it has; ``Doubt`` where it cannot be."""
        if self.went_end is None:
            request = ChatRequest.parse(self.body)
            came = [identity(message) for message in request.messages]
            body = request.rewritten(came, [*came, *map(identity, messages)], None)
        else:
            end = self.went_end
            body = b",".join((self.body[:end], *map(identity, messages))) + self.body[end:]
        return Form(body, None, None, changed=True)


def written(turn: Turn, raws: Sequence[bytes]) -> Form:
    """The body with all its messages."""
    request, view, head = turn.request, turn.view, turn.head
    frozen = forms_of((entry.sent for entry in turn.past.path()), turn.revision)
    sent = [*head.system, *frozen, *(fresh.sent for fresh in turn.tail if not fresh.left_out)]
    came = [*view.raws, *raws]
    if sent == came and head.tools == view.came_tools:
        end = split(request.raw, came)
        return Form(request.raw, end, end, changed=False)
    tools = None if head.tools == view.came_tools else head.tools
    body = request.rewritten(came, sent, tools)
    return Form(body, split(request.raw, came), split(body, sent), changed=True)


def continued(before: Resumable, turn: Turn, raws: Sequence[bytes]) -> Form:
    """The body that goes on from one that was sent."""
    sent = [fresh.sent for fresh in turn.tail if not fresh.left_out]
    entry = turn.past
    while entry is not before.tip:
        assert entry.parent is not None
        sent.insert(0, entry.sent)
        entry = entry.parent
    raw = turn.request.raw
    came_end = len(raw) - len(before.rest)
    if before.went is before.came and sent == raws:
        return Form(raw, came_end, came_end, changed=False)
    went = b",".join((before.went, *sent))
    return Form(went + before.went_rest, came_end, len(went), changed=True)


def resumable(
    form: Form, turn: Turn, match: Match, scope: tuple[str, str | None], tip: Entry, own: int
) -> Resumable | None:
    """What the next request may go on from; None where the body is laid out in another way."""
    raw, request = turn.request.raw, turn.request
    if form.came_end is None or form.went_end is None or tip is turn.tree.root:
        return None
    came, rest = raw[: form.came_end], raw[form.came_end :]
    resumed = request.known > request.head_size
    return Resumable(
        scope=scope,
        came=came,
        rest=rest,
        went=form.body[: form.went_end] if form.changed else came,
        went_rest=form.body[form.went_end :] if form.changed else rest,
        body=request.body
        if resumed
        else {k: v for k, v in request.body.items() if k != "messages"},
        view=turn.view,
        head=turn.head,
        tip=tip,
        consumed=consumed_until(match, turn),
        head_size=request.head_size,
        own=own,
    )


def consumed_until(match: Match, turn: Turn) -> list[int]:
    """Per depth, how many messages behind the head are covered, those of this request included."""
    request = turn.request
    covered = request.known - request.head_size + len(request.fresh)
    return [
        *match.consumed[: turn.past.depth + 1],
        *range(covered - len(turn.tail) + 1, covered + 1),
    ]
