"""Up to where does a request begin like one before, in the agent's own form?

Without kvagent, a server's cache would hold what the agent sent, and not what kvagent made of it. Of
each message a few hashes are kept: of the agent's own requests up to there. A message of which none
is known, because it was read from a store, is taken for one that came as it comes now.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kvagent.entry import Entry
from kvagent.fingerprint import rendered
from kvagent.head import HeadView
from kvagent.recognise import Match

# Of so many of the agent's forms of what stands up to a message it is known that they were sent.
_MARKS = 16
# And of so many forms of the message itself, what a server is shown.
_FORMS = 4

_GONE = b""


@dataclass(slots=True)
class Own:
    """One request in the agent's own form, as far as its messages were sent before."""

    begin: Entry
    """Where it begins to be followed; what is before came in the very bytes of an earlier one."""
    marks: list[int]
    """The hash of all up to ``begin``, and up to each entry from there on."""
    pieces: Sequence[int]
    """Hashes of system messages and tools; empty where they are those of the request before."""
    sizes: list[int]
    """Bytes of each message."""
    left: Entry | None = None
    """The first entry that the agent's requests before did not have in front of them in this form;
    the tree's root where it is the head that differs."""
    message: Mapping[str, Any] | None = None
    """The message that stands there; None where it is gone."""

    def keep(self, tip: Entry, tail: Iterable[tuple[bytes, Mapping[str, Any]]]) -> int:
        """Note that the request was answered; returns its hash.

        ``tail`` are its new messages, up to ``tip``, as they came.
        """
        entries = tip.path(self.begin)
        mark = self.marks[-1]
        marks = self.marks[1:]
        for entry, (raw, message) in zip(entries[len(marks) :], tail, strict=False):
            mark = hash((mark, _form(entry, raw, message)))
            marks.append(mark)
        for entry, mark in zip(entries, marks, strict=False):
            if mark not in entry.came:
                entry.came = (*entry.came, mark)[-_MARKS:]
        if self.pieces and entries:
            first = entries[0]
            others = [mark for mark in first.came if mark not in self.pieces]
            first.came = (*others[-_MARKS:], *self.pieces)
        return mark


def follow(
    match: Match,
    messages: Sequence[Mapping[str, Any]],
    raws: Sequence[bytes],
    view: HeadView,
    begin: tuple[Entry, int] | None,
) -> Own:
    """Follow the agent's own form through the messages that are known.

    ``begin`` is where a request ended that this one continues byte for byte, and its hash; then
    ``messages`` are those behind it.
    """
    if begin is None:
        entry = match.tip
        while entry.parent is not None:
            entry = entry.parent
        own = Own(entry, [hash(view.pieces)], view.pieces, [])
    else:
        own = Own(begin[0], [begin[1]], (), [])
    known = match.tip.path(own.begin)
    if known and known[0].came and not set(own.pieces) <= set(known[0].came):
        own.left = own.begin
    skipped = match.consumed[own.begin.depth]
    mark = own.marks[0]
    for entry in known:
        at = match.consumed[entry.depth - 1]
        gone = match.consumed[entry.depth] == at
        raw = _GONE if gone else raws[at - skipped]
        message = None if gone else messages[at - skipped]
        mark = hash((mark, raw if message is None else _form(entry, raw, message)))
        own.marks.append(mark)
        own.sizes.append(len(raw))
        known_so = mark in entry.came or not entry.came
        if own.left is None and not known_so and not _was_generated(entry, message):
            own.left, own.message = entry, message
    return own


def _was_generated(entry: Entry, message: Mapping[str, Any] | None) -> bool:
    """Whether a message is what the server answered to a request that ended in front of it."""
    if message is None or entry.parent is None:
        return False
    answers = [each.message for each in entry.parent.replies if each.meaning == entry.meaning]
    return bool(answers) and rendered(message) in map(rendered, answers)


def _form(entry: Entry, raw: bytes, message: Mapping[str, Any]) -> Hashable:
    """Equal for forms of a message in which a server is shown the very same texts."""
    if raw == entry.raw:
        return entry.raw
    name = hash(raw)
    for known, form in entry.looks:
        if known == name:
            return entry.raw if form is None else form
    shown = hash(rendered(message))
    form = None if shown == hash(rendered(orjson.loads(entry.raw))) else shown
    entry.looks = (*entry.looks, (name, form))[-_FORMS:]
    return entry.raw if form is None else form
