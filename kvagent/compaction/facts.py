"""What happened in a range of messages, word for word and without a model?

A fold over the messages: the facts of a range are what its messages add to the facts before it, so
the facts of two neighbouring ranges, one after the other, are those of both together. Every fact has
a key, and the latest one with a key stands; what it replaced stands nowhere, not even in what the
user said before. Only text of the user and of system messages can bind or set a value.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kvagent.chat import HEAD_ROLES, calls_of, text_of
from kvagent.compaction import rules, values
from kvagent.compaction.calls import Call, Outcome, outcome_of
from kvagent.compaction.delimiters import without_records
from kvagent.compaction.escape import escaped
from kvagent.compaction.rules import Kind
from kvagent.compaction.sentences import sentences_of
from kvagent.compaction.touched import Touch
from kvagent.shorten import shorten

REPLACED = "[replaced later]"
"""Stands in the user's words where a value or a rule stood that the user has replaced since."""

_LONGEST_MESSAGE = 8_000  # characters kept of one message of the user's
_LONGEST_COMMAND = 300
_MOST_SENTENCES = 400  # of one message that are looked at

Range = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user's."""

    number: int
    """Counted from 1."""
    text: str
    handle: str | None = None
    """Under which the whole of it can be had back, where ``text`` is not the whole."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A sentence that binds."""

    kind: Kind
    text: str
    role: str
    """Who said it: ``user``, or a role of the head."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that somebody set, with the sentence that set it."""

    key: str
    value: str
    sentence: str
    role: str
    plain: bool = True
    """Whether it is worth showing beside the sentence: "the port is 8080", not "the plan is good"."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that was read or changed."""

    path: str
    changes: int = 0
    deleted: bool = False
    seen: tuple[Range, ...] = ()
    """The lines read since its last change; ``(None, None)`` is all of it."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that did more than look, as it was last run."""

    aim: str
    line: str
    failed: bool
    exit_code: int | None
    times: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """A call that failed, and that nothing has made up for since."""

    target: str
    tool: str
    exit_code: int | None
    said: tuple[str, ...]
    """Lines of its result: the words of a tool."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What happened, oldest first; within each kind, what was touched last stands last."""

    said: tuple[Said, ...] = ()
    """Every message of the user's; the first one is the task."""
    bindings: tuple[Binding, ...] = ()
    values: tuple[Value, ...] = ()
    files: tuple[File, ...] = ()
    commands: tuple[Command, ...] = ()
    problems: tuple[Problem, ...] = ()
    plan: tuple[tuple[str, str], ...] = ()
    """The steps of the plan as last written, each with its state."""
    running: tuple[tuple[str, str], ...] = ()
    """The sessions that still run, each with its command."""
    handles: tuple[tuple[str, str], ...] = ()
    """The handles under which originals can be had back, each with what it holds."""
    stale: tuple[tuple[str, str], ...] = ()
    """Values that were replaced, each with its key: for checks, never to be shown."""

    @property
    def task(self) -> str:
        """What the user asked for first."""
        return self.said[0].text if self.said else ""

    @property
    def rules(self) -> list[str]:
        """The sentences that bind, in order."""
        return [binding.text for binding in self.bindings if binding.kind == "rule"]

    @property
    def changed(self) -> list[str]:
        """The paths of the files that were changed or deleted."""
        return [file.path for file in self.files if file.changes or file.deleted]

    def to_json(self) -> dict[str, Any]:
        """The facts as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Facts:
        """The facts that ``to_json`` gave, before or after they were JSON."""
        made: dict[str, Any] = {
            name: tuple(
                kind(**{key: _frozen(value) for key, value in item.items()}) for item in read[name]
            )
            for name, kind in _KINDS.items()
        }
        pairs = ("plan", "running", "handles", "stale")
        return cls(**made, **{name: _frozen(read[name]) for name in pairs})


_KINDS: Mapping[str, type[Any]] = {
    "said": Said,
    "bindings": Binding,
    "values": Value,
    "files": File,
    "commands": Command,
    "problems": Problem,
}

NO_FACTS = Facts()


def facts_of(
    messages: Sequence[Mapping[str, Any]],
    before: Facts = NO_FACTS,
    handles: Mapping[int, str] = {},
) -> Facts:
    """The facts of ``messages`` on top of those before.

    messages  as the agent sent them; every tool call has its result among them
    before    the facts of all that came before
    handles   by a message's place in ``messages``, the handle under which its original is kept
    """
    fold = _Fold(before)
    for index, message in enumerate(messages):
        fold.add(message, handles.get(index))
    return fold.facts()


@dataclass(slots=True)
class _Fold:
    """The facts while messages come in; dicts keep the order in which their keys were last set."""

    before: Facts
    said: list[Said] = field(init=False)
    bindings: list[Binding] = field(init=False)
    values: list[Value] = field(init=False)
    stale: dict[tuple[str, str], None] = field(init=False)
    files: dict[str, File] = field(init=False)
    commands: dict[str, Command] = field(init=False)
    problems: dict[str, Problem] = field(init=False)
    running: dict[str, str] = field(init=False)
    handles: dict[str, str] = field(init=False)
    plan: tuple[tuple[str, str], ...] = field(init=False)
    open: dict[str, Call] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        before = self.before
        self.said, self.bindings, self.values = [*before.said], [*before.bindings], [*before.values]
        self.stale = dict.fromkeys(before.stale)
        self.files = {file.path: file for file in before.files}
        self.commands = {command.aim: command for command in before.commands}
        self.problems = {problem.target: problem for problem in before.problems}
        self.running, self.handles = dict(before.running), dict(before.handles)
        self.plan = before.plan

    def facts(self) -> Facts:
        return Facts(
            tuple(self.said),
            tuple(self.bindings),
            tuple(self.values),
            tuple(self.files.values()),
            tuple(self.commands.values()),
            tuple(self.problems.values()),
            self.plan,
            tuple(self.running.items()),
            tuple(self.handles.items()),
            tuple(self.stale),
        )

    def add(self, message: Mapping[str, Any], handle: str | None) -> None:
        role = str(message.get("role"))
        if role == "user" or role in HEAD_ROLES:
            self._add_words(escaped(without_records(text_of(message))), role, handle)
        elif role == "assistant":
            for call in map(Call.of, _calls_of(message)):
                self.open[call.id] = call
                self.plan = (
                    tuple((_line(state), _line(step)) for state, step in call.plan or ())
                    or self.plan
                )
        elif role in {"tool", "function"}:
            name = str(message.get("tool_call_id") or message.get("name"))
            if name in self.open:
                call = self.open.pop(name)
                self._settle(call, outcome_of(call, message), text_of(message))
                if handle is not None:
                    self.handles[handle] = _cut(_line(f"{call.name}: {call.target}"), 120)
            elif handle is not None:
                self.handles[handle] = "a tool result"
        if handle is not None and role not in {"tool", "function"}:
            self.handles[handle] = f"a message of the {role}"

    def _add_words(self, text: str, role: str, handle: str | None) -> None:
        if not text.strip():
            return
        said_before = len(self.said)
        sentences = sentences_of(text)
        if (
            len(sentences) > _MOST_SENTENCES
        ):  # a paste; what the user says of it stands at an end of it
            sentences = sentences[: _MOST_SENTENCES // 2] + sentences[-_MOST_SENTENCES // 2 :]
        if role == "user":
            kept = shorten(text, _LONGEST_MESSAGE, handle=handle).text
            self.said.append(Said(said_before + 1, kept, handle if kept != text else None))
        covered = before = ""
        for sentence in sentences:
            kind = rules.kind_of(sentence)
            if kind is not None and sentence not in covered:
                covered = sentence if "\n" in sentence else covered
                self._bind(Binding(kind, sentence, role), said_before)
            self._set_values(sentence, before, role, said_before)
            before = sentence

    def _bind(self, new: Binding, said_before: int) -> None:
        """Put a sentence in the place of those that it replaces."""
        goal = rules.goal_of(new.text)
        for old in list(self.bindings):
            if old.text == new.text:
                self.bindings.remove(old)
            elif old.role in HEAD_ROLES and new.role not in HEAD_ROLES:
                continue  # a user lifts no rule of the system's
            elif rules.replaces(new.text, old.text) or (
                goal is not None and goal == rules.goal_of(old.text)
            ):
                self.bindings.remove(old)
                self._rewrite(old.text, REPLACED, until=said_before)
        self.bindings.append(new)

    def _set_values(self, sentence: str, before: str, role: str, said_before: int) -> None:
        stated = values.values_in(sentence)
        for one in stated:
            self._set(Value(one.key, one.value, sentence, role, one.plain))
        it = values.value_of_it(sentence) if not stated else None
        slot = self._spoken_of(f"{before} {sentence}") if it is not None else None
        if it is not None and slot is not None:
            self._set(Value(slot.key, it, sentence, role))
        for old, new in values.replacements_in(sentence):
            slot = self._holding(old)
            if slot is None:
                self._choose(sentence, old, new, said_before)
                continue
            if slot.value.lower() != new.lower():
                self._set(Value(slot.key, new, sentence, role))
            if values.is_telling(old) and (slot.key, old) in self.stale:
                self._mask(old)

    def _holding(self, value: str) -> Value | None:
        """What has a value, or had it last."""
        held = [slot for slot in self.values if slot.value.lower() == value.lower()]
        keys = {key for key, old in self.stale if old.lower() == value.lower()}
        had = [slot for slot in self.values if slot.key in keys]
        return next(iter([*held, *reversed(had)]), None)

    def _choose(self, sentence: str, old: str, new: str, said_before: int) -> None:
        """ "Deploy to B instead of A" takes the place of "deploy to A", which set no value."""
        finder = values.find(old)
        about = rules.subject_of(sentence) - rules.subject_of(f"{old} {new}")
        replaced = [
            before
            for said in self.said[:said_before]
            if finder.search(said.text)
            for before in sentences_of(said.text)
            if finder.search(before) and rules.subject_of(before) - rules.subject_of(old) <= about
        ]
        for before in replaced:
            self.bindings = [binding for binding in self.bindings if binding.text != before]
            self._rewrite(before, REPLACED, until=said_before)
        if replaced:
            self.stale[new, old] = None
            self._rewrite(sentence, finder.sub(REPLACED, sentence), until=len(self.said))

    def _spoken_of(self, text: str) -> Value | None:
        """The one value that a text names by its key."""
        words = values.subject_of(text)
        named = [value for value in self.values if values.subject_of(value.key) <= words]
        return named[0] if len(named) == 1 else None

    def _set(self, new: Value) -> None:
        old = self._slot(new.key)
        if old is None:
            self.values.append(new)
        else:
            self.values.remove(old)
            key = old.key if values.subject_of(new.key) < values.subject_of(old.key) else new.key
            new = replace(new, key=key)
            self.values.append(new)
            if old.value.lower() != new.value.lower():
                self._drop(old, new)
        for pair in [pair for pair in self.stale if pair[1].lower() == new.value.lower()]:
            del self.stale[pair]

    def _slot(self, key: str) -> Value | None:
        """The value that a key names: the same words, or the only one whose key says more or less."""
        subject = values.subject_of(key)
        own = values.bare_subject_of(key)
        near: list[Value] = []
        for value in self.values:
            other = values.subject_of(value.key)
            if other == subject:
                return value
            other_own = values.bare_subject_of(value.key)
            if own == other_own and (subject == own or other == other_own):
                near.append(value)
        return near[0] if len(near) == 1 else None

    def _drop(self, old: Value, new: Value) -> None:
        """Take a value that was replaced out of everything that was said."""
        finder = values.find(old.value)
        shared = any(value.value.lower() == old.value.lower() for value in self.values)
        if old.plain and not shared:
            self.stale[new.key, old.value] = None
        if old.plain and not shared and values.is_telling(old.value):
            self._mask(old.value)
        elif old.sentence != new.sentence:
            self._rewrite(old.sentence, finder.sub(REPLACED, old.sentence), until=len(self.said))
        # A sentence that did nothing but set the value has nothing left to say.
        setting = finder.sub(REPLACED, old.sentence)
        rest = rules.subject_of(setting.replace(REPLACED, " ")) - rules.subject_of(old.key)
        if len(rest) < 2:
            self.bindings = [
                binding for binding in self.bindings if binding.text not in {old.sentence, setting}
            ]

    def _mask(self, value: str) -> None:
        """Take a value out of all that was said, wherever it stands."""
        finder = values.find(value)
        self.said = [replace(said, text=finder.sub(REPLACED, said.text)) for said in self.said]
        self.values = [
            replace(slot, sentence=finder.sub(REPLACED, slot.sentence)) for slot in self.values
        ]
        self.bindings = [
            replace(binding, text=finder.sub(REPLACED, binding.text)) for binding in self.bindings
        ]

    def _rewrite(self, old: str, new: str, *, until: int) -> None:
        """Replace a sentence in the user's first ``until`` messages and in all that binds."""
        for index, said in enumerate(self.said[:until]):
            if old in said.text:
                self.said[index] = replace(said, text=said.text.replace(old, new))
        self.bindings = [
            replace(binding, text=new) if binding.text == old and new != REPLACED else binding
            for binding in self.bindings
        ]

    def _settle(self, call: Call, outcome: Outcome, result: str) -> None:
        """What a call did, now that its result is there."""
        if call.session is not None and call.command is None:
            line = self.running.get(call.session)
            if line is None or outcome.exit_code is None:
                return  # it runs on, or was never seen to start
            del self.running[call.session]
            call = Call(call.id, "command", {"command": line})
        if outcome.runs_on is not None and call.command is not None:
            self.running[outcome.runs_on] = call.command
            return
        if call.command is not None and not call.looks_only:
            aim = _cut(_line(call.target), _LONGEST_COMMAND)
            last = self.commands.pop(aim, None)
            self.commands[aim] = Command(
                aim,
                _cut(_line(call.command), _LONGEST_COMMAND),
                outcome.failed,
                outcome.exit_code,
                last.times + 1 if last else 1,
            )
        touches = call.touches(result)
        if outcome.failed:
            self._fail(call, outcome, touches)
        else:
            self._succeed(call, touches)

    def _fail(self, call: Call, outcome: Outcome, touches: Iterable[Touch]) -> None:
        if call.looks_only:
            return
        target = _cut(_line(_target(call, touches)), _LONGEST_COMMAND)
        last = self.problems.pop(target, None)
        said = tuple(escaped(line) for line in outcome.said)
        times = last.times + 1 if last else 1
        self.problems[target] = Problem(target, call.name, outcome.exit_code, said, times)

    def _succeed(self, call: Call, touches: Sequence[Touch]) -> None:
        done = {_cut(_line(_target(call, touches)), _LONGEST_COMMAND)}
        for touch in touches:
            path = posixpath.normpath(escaped(_line(touch.path)))
            file = self.files.pop(path, None) or File(path)
            if touch.how == "read":
                file = replace(
                    file, seen=_joined(file.seen, (touch.first, touch.last)), deleted=False
                )
                done.add(f"read {path}")
            else:
                deleted = touch.how == "deleted"
                changes = file.changes + (not deleted)
                file = replace(file, changes=changes, deleted=deleted, seen=())
                done.update(f"{how} {path}" for how in ("read", "wrote", "edited", "deleted"))
            self.files[path] = file
            if file.deleted:
                self._delete_under(path)
        for target in list(self.problems):
            # `pytest` that passes makes up for `pytest tests/test_a.py` that failed.
            if target in done or any(target.startswith(f"{one} ") for one in done):
                del self.problems[target]

    def _delete_under(self, folder: str) -> None:
        for path, file in self.files.items():
            if path.startswith(f"{folder}/"):
                self.files[path] = replace(file, deleted=True, seen=())


def _calls_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = calls_of(message)
    function = message.get("function_call")  # as before there were tools
    if isinstance(function, dict):
        calls = [*calls, {"id": function.get("name"), "function": function}]
    return calls


def _target(call: Call, touches: Iterable[Touch]) -> str:
    """What a call was aimed at: for a file, also what it should have become of it."""
    if call.command is not None:
        return call.target
    touch = next(iter(touches), None)
    return f"{touch.how} {posixpath.normpath(touch.path)}" if touch is not None else call.target


def _joined(seen: tuple[Range, ...], new: Range) -> tuple[Range, ...]:
    """Ranges of lines in order, with those that meet made one."""
    if new == (None, None) or seen == ((None, None),):
        return ((None, None),)
    ranges = sorted((*seen, new), key=lambda lines: (lines[0] or 1, lines[1] or 10**9))
    joined: list[Range] = []
    for first, last in ranges:
        if joined:
            start, end = joined[-1]
            if end is None:
                continue
            if (first or 1) <= end + 1:
                joined[-1] = (start, None if last is None else max(end, last))
                continue
        joined.append((first or 1, last))
    return tuple(joined)


def _frozen(value: Any) -> Any:
    """Lists as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _line(text: str) -> str:
    return escaped(" ".join(text.split()))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
