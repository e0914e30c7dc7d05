"""What of the messages that were sent before is not what it was in the request before?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kvagent.audit.changes.messages import Change, changes
from kvagent.audit.changes.texts import Texts, joined, parts_of, place_in
from kvagent.audit.difference import first_field, loaded
from kvagent.audit.formats.dialects.functions import MADE
from kvagent.audit.rules import history
from kvagent.audit.rules.fault import Fault, contrast, first_contrast, is_seen, is_unseen
from kvagent.audit.sent import Known, Snapshot
from kvagent.audit.turns import Turn
from kvagent.chat import calls_of, text_of
from kvagent.fingerprint import same_render
from kvagent.moved import part_moved, whole_moved

# Faults of one rule that are told of one turn; the last one counts for those that are not.
_TOLD = 3

# Moved text is looked for in so many of the newest messages.
_LATER = 8

_REASONING = ("reasoning", "reasoning_content", "reasoning_details")

# A result that got so much shorter was cleared.
_CLEARED = 2


class HistoryFaults:
    """Looks at the messages behind the head."""

    def __init__(self) -> None:
        self._texts = Texts()

    def faults(self, turn: Turn) -> list[Fault]:
        """In the order of the prompt."""
        old, new = turn.placed.before, turn.placed.snapshot
        if old is None or turn.placed.common == len(old.messages) or turn.kind == "branched":
            return []
        if turn.kind == "compacted":
            return [_compacted(turn, old, new)]
        if turn.request.departs == "branch":
            return []
        if all(one is other for one, other in zip(old.body, new.body, strict=False)):
            return []
        found = changes(old.body, new.body)
        return _few(self._all(turn, old, new, found))

    def _all(
        self, turn: Turn, old: Snapshot, new: Snapshot, found: Sequence[Change]
    ) -> Iterator[Fault]:
        for change in found:
            at = new.head + change.new.start
            if change.what == "written":
                yield from _written(turn, at, old.body[change.old.start], new.messages[at])
            elif change.what == "edited":
                yield self._edited(turn, at, old, change.old.start)
            elif change.what == "inserted":
                yield _inserted(turn, at, len(change.new))
            else:
                yield _removed(turn, at, old, change)

    def _edited(self, turn: Turn, at: int, old: Snapshot, place: int) -> Fault:
        """Another text in an old message."""
        was, now = old.body[place], turn.placed.snapshot.messages[at]
        before, message = loaded(was.raw), turn.request.messages[at]
        parts = parts_of(message)
        one, other = joined(parts_of(before)), joined(parts)
        found = self._texts.changes(one, other)
        if not found or was.role != now.role:
            # Not the text: a call, a picture, the role.
            field, one, other = first_field(before, loaded(now.raw))
            character, texts = first_contrast(one, other)
        else:
            change = min(found, key=lambda each: each.after)
            field, character = place_in(parts, change.after)
            texts = contrast(one, other, change.before, change.after)
        fault = Fault(
            history.EDITED,
            ("edited", now.role),
            f"{_KINDS.get(now.role, 'A message')} in the history was changed.",
            message=at,
            field=field,
            character=character,
            contrast=texts,
        )
        if part_moved(before, message, _later(turn, at), joined(parts_of(before)).strip()):
            return replace(
                fault,
                rule=history.MOVED,
                key="part",
                said="Text was taken out of an old message and came back in a newer one.",
            )
        if found and {change.what for change in found} == {"clock"}:
            said = f"A clock in {_KINDS_IN.get(now.role, 'a message')} in the history changes."
            return replace(fault, key=("clock", now.role), said=said)
        if _is_shortened(was, now, one, other):
            if _is_newest(old.body, place):
                return replace(
                    fault,
                    key="newest",
                    said="A result was shortened after it had been sent.",
                    fix="Shorten a result before it is sent for the first time, and then leave it.",
                )
            return replace(
                fault,
                rule=history.COMPACTED,
                key="cleared",
                said="Old results were replaced by shorter texts.",
            )
        return fault


_KINDS = {
    "user": "A user message",
    "assistant": "An answer of the model",
    "tool": "A tool result",
    "function": "A tool result",
    "system": "A system message",
    "developer": "A system message",
}
_KINDS_IN = {role: kind[0].lower() + kind[1:] for role, kind in _KINDS.items()}


def _few(found: Iterator[Fault]) -> list[Fault]:
    """Of many with one rule and key the first ones, and the rest as a count."""
    told: list[Fault] = []
    places: dict[object, list[int]] = {}
    for fault in found:
        mine = places.setdefault((fault.rule.code, fault.key), [])
        if len(mine) < _TOLD:
            mine.append(len(told))
            told.append(fault)
        else:
            last = told[mine[-1]]
            told[mine[-1]] = replace(last, count=last.count + fault.count)
    return told


def _written(turn: Turn, at: int, was: Known, now: Known) -> Iterator[Fault]:
    """The same message in other bytes."""
    before, after = loaded(was.raw), loaded(now.raw)
    if was.name != now.name:
        yield from _with_ids(turn, at, before, after)
    if is_unseen(turn, at):
        return
    path = _arguments(before, after)
    if path is not None:
        field, one, other = path
        character, texts = first_contrast(one, other)
        only_blanks = _without_blanks(one) == _without_blanks(other)
        yield Fault(
            history.ARGUMENTS,
            only_blanks,
            "The arguments of an old call came back with other blanks between them."
            if only_blanks
            else "The arguments of an old call came back in another form.",
            message=at,
            field=field,
            character=character,
            contrast=texts,
        )
    reasons = [(before.get(key) or "", after.get(key) or "", key) for key in _REASONING]
    if any(one and not other for one, other, _ in reasons):
        one, other, key = next(each for each in reasons if each[0] and not each[1])
        renamed = any(other == one for _, other, _ in reasons)
        if not renamed:
            character, texts = first_contrast(*map(str, (one, other)))
            yield Fault(
                history.REASONING,
                "",
                "The reasoning of an old answer was left away.",
                message=at,
                field=key,
                character=character,
                contrast=texts,
            )
    elif path is None and (is_seen(turn, at) or not same_render(_bare(before), _bare(after))):
        field, one, other = first_field(before, after)
        character, texts = first_contrast(one, other)
        yield Fault(
            history.RESERIALISED,
            now.role,
            f"{_KINDS.get(now.role, 'A message')} in the history came back in another form.",
            message=at,
            field=field,
            character=character,
            contrast=texts,
            only_alone=alike,
        )


def _bare(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the ids of calls, which have a rule of their own."""
    bare = {key: value for key, value in message.items() if key != "tool_call_id"}
    if "tool_calls" in bare:
        bare["tool_calls"] = [
            {key: value for key, value in call.items() if key != "id"} for call in calls_of(message)
        ]
    return bare


def _arguments(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first arguments that are another text: the path, and both texts."""
    for number, (one, other) in enumerate(zip(calls_of(before), calls_of(after), strict=False)):
        texts = _text_of_arguments(one), _text_of_arguments(other)
        if texts[0] != texts[1]:
            return f"tool_calls[{number}].function.arguments", *texts
    return None


def _text_of_arguments(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    return arguments if isinstance(arguments, str) else ""


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _with_ids(
    turn: Turn, at: int, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
    """The same message with ids of its own."""
    pairs = [
        (f"tool_calls[{number}].id", one.get("id"), other.get("id"))
        for number, (one, other) in enumerate(zip(calls_of(before), calls_of(after), strict=False))
    ]
    pairs.append(("tool_call_id", before.get("tool_call_id"), after.get("tool_call_id")))
    field, one, other = next((each for each in pairs if each[1] != each[2]), ("", None, None))
    if str(other).startswith(MADE):
        return  # the transcript has none
    said = "The ids of old calls were made anew."
    if is_unseen(turn, at):
        said += " This model's template does not show them, so nothing is lost."
    character, texts = first_contrast(str(one or ""), str(other or ""))
    yield Fault(
        history.IDS,
        is_unseen(turn, at),
        said,
        message=at,
        field=field,
        character=character,
        contrast=texts,
    )


def _inserted(turn: Turn, at: int, count: int) -> Fault:
    message = turn.request.messages[at]
    return Fault(
        history.INSERTED,
        message.get("role"),
        f"{_KINDS.get(str(message.get('role')), 'A message')} was put in front of old ones.",
        message=at,
        excerpt=text_of(message),
        count=count,
    )


def _removed(turn: Turn, at: int, old: Snapshot, change: Change) -> Fault:
    """Messages that are gone, though what stood behind them is sent again."""
    gone = old.body[change.old.start : change.old.stop]
    first = loaded(gone[0].raw)
    fault = Fault(
        history.REMOVED,
        "",
        "Old messages were left out in front of others.",
        message=at,
        excerpt=text_of(first),
        count=len(gone),
    )
    if len(gone) == 1 and gone[0].role in ("user", "system", "developer"):
        if whole_moved(first, gone[0].name, _later(turn, at)):
            return replace(
                fault,
                rule=history.MOVED,
                key="whole",
                said="A message was taken out of its place and came back as a newer one.",
            )
    return fault


def _later(turn: Turn, at: int) -> list[Mapping[str, Any]]:
    """The newest messages behind a place, but for the model's."""
    newest = turn.request.messages[max(at + 1, len(turn.request.messages) - _LATER) :]
    return [message for message in newest if message.get("role") != "assistant"]


def _is_shortened(was: Known, now: Known, one: str, other: str) -> bool:
    return was.role == now.role in ("tool", "function") and len(other) * _CLEARED <= len(one)


def _is_newest(body: Sequence[Known], place: int) -> bool:
    """Whether no answer stood behind a message when it was sent last."""
    return all(message.role != "assistant" for message in body[place + 1 :])


def _compacted(turn: Turn, old: Snapshot, new: Snapshot) -> Fault:
    """A summary in the place of old messages."""
    at = turn.placed.common
    before = loaded(old.messages[at].raw) if at < len(old.messages) else {}
    message = turn.request.messages[at] if at < len(new.messages) else {}
    field, one, other = first_field(before, message)
    character, texts = first_contrast(one, other)
    return Fault(
        history.COMPACTED,
        "summary",
        "Old messages were replaced by a summary.",
        message=at if message else None,
        field=field if message else "",
        character=character if message else None,
        contrast=texts,
    )
