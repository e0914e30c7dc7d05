"""What in the head of a request is not what it was in the request before?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvagent.audit.changes import tools as tool_changes
from kvagent.audit.changes.texts import Texts, joined, parts_of, place_in
from kvagent.audit.difference import first_field, loaded
from kvagent.audit.rule import Rule
from kvagent.audit.rules import head
from kvagent.audit.rules.fault import Fault, contrast, first_contrast, is_seen, is_unseen, lost
from kvagent.audit.sent import Known, Snapshot
from kvagent.audit.turns import Turn
from kvagent.chat import text_of
from kvagent.prefixcache.seen import common_prefix

# Options under which a cache is kept or chosen: they leave the prompt as it is.
_NOT_OF_THE_PROMPT = frozenset(
    {
        "cache_prompt",
        "cache_salt",
        "id_slot",
        "lora",
        "model",
        "prompt_cache_key",
        "prompt_logprobs",
    }
)

# Text that stays the same behind text that changes is worth a word from so many characters on.
_STATIC = 200

# Two system prompts are those of different agents if they share less of their lines.
_SHARED = 0.2

_TOLD: Mapping[tool_changes.What, str] = {
    "added": "Tools were added within the conversation, at first {}.",
    "removed": "Tools were taken away within the conversation, at first {}.",
    "redefined": "Tools were defined otherwise within the conversation, at first {}.",
    "reordered": "The tools are the same and come in another order.",
    "key_order": "Schemas of tools come with their keys in another order, at first those of {}.",
}
_NAMED = 5


class HeadFaults:
    """Looks at options, system messages and tools."""

    def __init__(self) -> None:
        self._texts = Texts()

    def faults(self, turn: Turn) -> list[Fault] | None:
        """In the order of the prompt; None: another agent was asked, and shares nothing."""
        old, new = turn.placed.before, turn.placed.snapshot
        if old is None or not turn.placed.head_changed:
            return []
        if _is_switched(old, new):
            return [_switched(old, new)] if _is_told_again(old, new) else None
        system = list(self._system(turn, old, new))
        tools = list(self._tools(old, new)) if old.tools != new.tools else []
        if turn.exact and not lost(turn):
            tools = []  # a template may not show them at all
        both = [*tools, *system] if _tools_come_first(turn) else [*system, *tools]
        return [*_options(turn, old, new), *both]

    def _system(self, turn: Turn, old: Snapshot, new: Snapshot) -> Iterator[Fault]:
        before, after = old.messages[: old.head], new.messages[: new.head]
        first = last = 0
        if len(before) != len(after):
            first = _same(before, after)
            last = min(_same(before[::-1], after[::-1]), min(len(before), len(after)) - first)
        gone, come = before[first : len(before) - last], after[first : len(after) - last]
        for at, (one, other) in enumerate(zip(gone, come, strict=False), first):
            if one.raw != other.raw:
                yield from self._message(turn, at, one, other)
        at = first + min(len(gone), len(come))
        if len(gone) != len(come):
            added = len(come) > len(gone)
            extra = (come if added else gone)[at - first]
            text = text_of(loaded(extra.raw))
            yield Fault(
                head.EDITED,
                ("added" if added else "removed", at),
                f"System message {at} was {'added' if added else 'taken away'}.",
                message=at if added else min(at, len(new.messages) - 1),
                excerpt=text,
                count=abs(len(come) - len(gone)),
            )

    def _message(self, turn: Turn, at: int, old: Known, new: Known) -> Iterator[Fault]:
        """What in a system message is another text."""
        if turn.exact and not lost(turn):
            return  # a server may leave out what changes: vLLM a billing header
        before, after = loaded(old.raw), loaded(new.raw)
        parts, others = parts_of(before), parts_of(after)
        one, other = joined(parts), joined(others)
        is_only = turn.placed.snapshot.head == 1
        where = "the system prompt" if is_only else f"system message {at}"
        if one == other:
            yield from _rewritten(turn, at, old, new, where)
            return
        for change in self._texts.changes(one, other):
            path, character = place_in(others, change.after)
            rule, key, said, fix = head.EDITED, "text", f"Text of {where} was changed.", ""
            if change.what == "clock":
                rule, key, said = head.CLOCK, change.name, f"A clock in {where} changes."
            elif change.what == "id":
                rule, key, said = head.ID, change.name, f"An id in {where} changes."
            elif _static(one[change.before :], other[change.after :]) >= _STATIC:
                key = "text in front"
                said = f"Text of {where} changes that stands in front of text that does not."
                fix = (
                    "Put what changes behind all text that stays the same, or better tell it at "
                    "the end of the newest message."
                )
            yield Fault(
                rule,
                (at, key),
                said,
                message=at,
                field=path,
                character=character,
                contrast=contrast(one, other, change.before, change.after),
                fix=fix,
            )

    def _tools(self, old: Snapshot, new: Snapshot) -> Iterator[Fault]:
        for change in tool_changes.changes(old.tools, new.tools):
            rule, key, said = _of_tools(change)
            at, texts = first_contrast(change.before, change.after)
            if change.what == "redefined":
                found = self._texts.changes(change.before, change.after)
                kinds = {each.what for each in found}
                if len(kinds) == 1 and kinds != {"text"}:
                    rule = head.CLOCK if kinds == {"clock"} else head.ID
                    key = ("tool", change.field)
                    noun = "A clock" if rule is head.CLOCK else "An id"
                    said = f"{noun} in the definition of tool {change.names[0]} changes."
            yield Fault(
                rule,
                key,
                said,
                tool=change.index,
                field=change.field,
                character=at,
                contrast=texts,
            )


def _of_tools(change: tool_changes.Change) -> tuple[Rule, object, str]:
    rule = head.TOOLS_CHANGED
    if change.what == "reordered":
        rule = head.REORDERED
    elif change.what == "key_order":
        rule = head.KEY_ORDER
    names = ", ".join(change.names[:_NAMED])
    if len(change.names) > _NAMED:
        names += f" and {len(change.names) - _NAMED} more"
    return rule, change.what, _TOLD[change.what].format(names)


def _rewritten(turn: Turn, at: int, old: Known, new: Known, where: str) -> Iterator[Fault]:
    """The same text in another form: worth a word where the prompt may show it."""
    if is_unseen(turn, at) or (old.name == new.name and not is_seen(turn, at)):
        return
    field, before, after = first_field(loaded(old.raw), loaded(new.raw))
    character, texts = first_contrast(before, after)
    said = f"The form of {where} changes, not its text."
    yield Fault(
        head.RESERIALISED,
        at,
        said,
        message=at,
        field=field,
        character=character,
        contrast=texts,
        only_alone=old.name == new.name,
    )


def _options(turn: Turn, old: Snapshot, new: Snapshot) -> Iterator[Fault]:
    names = sorted(
        name
        for name in (old.options.keys() | new.options.keys()) - _NOT_OF_THE_PROMPT
        if old.options.get(name) != new.options.get(name)
    )
    if turn.exact and not lost(turn):
        return  # the prompt does not show them
    for name in names:
        before, after = (
            side.options.get(name, b"").decode(errors="replace") for side in (old, new)
        )
        character, texts = first_contrast(before, after)
        yield Fault(
            head.OPTIONS,
            name,
            f"{name} is not what it was in the request before.",
            field=name,
            character=character,
            contrast=texts,
        )


def _tools_come_first(turn: Turn) -> bool:
    """Whether the template is known to put the tools in front of the system prompt."""
    order = () if turn.profile is None else turn.profile.positions
    if "TOOLS" not in order or "SYS" not in order:
        return False
    return order.index("TOOLS") < order.index("SYS")


def _is_switched(old: Snapshot, new: Snapshot) -> bool:
    """Whether the heads are those of two agents: other instructions, and other tools."""
    if old.messages[: old.head] == new.messages[: new.head]:
        return False
    one, other = ({tool_changes.name_of(raw) for raw in side.tools} for side in (old, new))
    if one == other and one:
        return False
    texts = [
        "\n".join(text_of(loaded(message.raw)) for message in side.messages[: side.head])
        for side in (old, new)
    ]
    if not all(texts):
        return bool(one or other) and not one & other
    return _shared(*texts) < _SHARED


def _shared(one: str, other: str) -> float:
    """The share of the longer text that stands in the other one, too."""
    lines = {line.strip() for line in one.split("\n")}
    whole = sum(len(line) for line in other.split("\n") if line.strip() in lines)
    ends = common_prefix(one, other)
    ends += common_prefix(one[ends:][::-1], other[ends:][::-1])
    return max(whole, ends) / max(len(one), len(other))


def _is_told_again(old: Snapshot, new: Snapshot) -> bool:
    """Whether the other agent was sent what this one said, and not only the same question."""
    sent = {message.gist for message in old.body if message.is_own}
    return any(message.is_own and message.gist in sent for message in new.body)


def _switched(old: Snapshot, new: Snapshot) -> Fault:
    before, after = (
        text_of(loaded(side.messages[0].raw)) if side.head else "" for side in (old, new)
    )
    character, texts = first_contrast(before, after)
    return Fault(
        head.SWITCHED,
        "",
        "The conversation goes on under another system prompt and other tools.",
        message=0 if new.head else None,
        field="content" if new.head else "",
        character=character if new.head else None,
        contrast=texts,
    )


def _same(old: Sequence[Known], new: Sequence[Known]) -> int:
    """How many messages, from the front, mean the same."""
    for at, (one, other) in enumerate(zip(old, new, strict=False)):
        if one is not other and one.name != other.name:
            return at
    return min(len(old), len(new))


def _static(one: str, other: str) -> int:
    """How many characters stand unchanged behind a change."""
    return common_prefix(one[::-1], other[::-1])
