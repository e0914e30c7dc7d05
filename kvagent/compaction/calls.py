"""What did a tool call do, as far as its arguments and its result say?

No list of tools: a call is known by the names of its arguments and the words in its own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kvagent.chat import text_of
from kvagent.compaction.shell import aim_of, hides_its_end, is_looking, touched_by
from kvagent.compaction.touched import How, Touch
from kvagent.compaction.words import word_set
from kvagent.shorten.alarms import alarms

_PATHS = (
    "absolute_path",
    "file",
    "file_name",
    "file_path",
    "filename",
    "filepath",
    "notebook_path",
    "path",
    "relative_path",
    "relative_workspace_path",
    "target_file",
)
_COMMANDS = ("cmd", "command", "command_line", "commandline", "commands", "script")
_SESSIONS = ("bash_id", "process_id", "session", "session_id", "shell_id", "task_id")
_PLANS = ("plan", "task_list", "tasks", "todo_list", "todos")
_CONTENTS = word_set(
    "content contents diff edits file_text insert_text new_content new_source new_str new_string newText"
    " newString old_str old_string oldText patch replacement"
)
_CHANGING = word_set(
    "append apply change create edit insert modify overwrite patch put replace save update write"
)
_DELETING = word_set("delete remove unlink")
_READING = word_set("cat fetch get load open read show view")
_SEARCHING = word_set("dir find folder glob grep list ls search tree")
_FIRST = ("start_line", "line_start", "start", "from_line", "offset", "first_line")
_LAST = ("end_line", "line_end", "end", "to_line", "last_line")
_COUNT = ("limit", "length", "num_lines", "n_lines", "max_lines")
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PATCHED = re.compile(
    r"^\*\*\* (?P<how>Add|Update|Delete) File: (?P<named>.+?)\s*$"
    r"|^\+\+\+ (?:b/)?(?P<path>[^\s]+)",
    re.MULTILINE,
)
_PATCHES: Mapping[str | None, How] = {
    "Add": "wrote",
    "Update": "edited",
    "Delete": "deleted",
    None: "edited",
}
_EXIT = re.compile(
    r"\b(?:exit(?:ed)?|return)(?: with)?[ _]?(?:code|status)?[\"']?\s*[:=]?\s*(?:code |status )?(-?\d{1,3})\b"
    r"|<(?:returncode|exit_code)>\s*(-?\d{1,3})",
    re.IGNORECASE,
)
_EXIT_KEYS = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
_FAILED = re.compile(
    r"\s*(?:<tool_use_error>|<error>|Traceback \(|\[?(?:[A-Za-z]*(?:Error|Exception)\b|ERROR\b|error:)"
    r"|(?:Could not|Couldn't|Cannot|Can't|Failed|Unable|No changes|Permission denied|Invalid|Unknown tool"
    r"|File (?:does not exist|not found)|No such file|Timed? ?out|[\w.-]+ failed:))"
)
_TOLD = re.compile(
    r"^\[File: (\S+) \(|\b[Ff]ile (\S+) (?:has been|was) (?:changed|created|edited|modified|updated|written)",
    re.MULTILINE,
)
_RUNNING = re.compile(
    r"\b(?:running|background|started)\b[^\n]*?\b(?:session|process|shell|task|with)\s+ID:?\s*([\w-]+)",
    re.IGNORECASE,
)
_EDGE = 400  # characters at either end of a result in which a tool says how it went
_SAID = 240  # characters kept of each line of an error
_LINES = 3


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with its arguments read."""

    id: str
    name: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, call: Mapping[str, Any]) -> Call:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = orjson.loads(arguments)
            except orjson.JSONDecodeError:
                arguments = {"input": arguments}
        if not isinstance(arguments, dict):
            arguments = {} if arguments is None else {"input": arguments}
        return cls(str(call.get("id") or ""), str(function.get("name") or "tool"), arguments)

    @property
    def command(self) -> str | None:
        """The command line that it ran."""
        if self._path() is not None:
            return None  # an editor's sub-command
        value = _first(self.arguments, _COMMANDS)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            shell = len(value) > 2 and value[1] in {"-c", "-lc"}  # as in bash -lc make
            value = value[2] if shell else " ".join(value)
        return value.strip() if isinstance(value, str) and value.strip() else None

    @property
    def session(self) -> str | None:
        """The running command that it asks about."""
        value = _first(self.arguments, _SESSIONS)
        return str(value) if isinstance(value, str | int) and value != "" else None

    @property
    def plan(self) -> tuple[tuple[str, str], ...] | None:
        """The steps of the plan that it wrote down, each with its state; None if it wrote none."""
        value = _first(self.arguments, _PLANS)
        if not isinstance(value, list):
            return None
        steps: list[tuple[str, str]] = []
        for item in value:
            if isinstance(item, str):
                steps.append(("", item))
            elif isinstance(item, dict):
                text = _first(item, ("content", "step", "title", "task", "text", "description"))
                if isinstance(text, str):
                    steps.append((str(item.get("status") or item.get("state") or ""), text))
        return tuple(steps) if steps else None

    @property
    def target(self) -> str:
        """What it was aimed at: a success with the same target makes up for a failure."""
        if self.command is not None:
            return aim_of(self.command)
        path = self._path()
        if path is not None:
            return path
        patched = next(self._patched(), None)
        if patched is not None:
            return patched.path
        for value in self.arguments.values():
            if isinstance(value, str | int) and value != "":
                return f"{self.name}({_line(str(value), 80)})"
        return self.name

    @property
    def looks_only(self) -> bool:
        """Whether nothing is open when it fails: a search, a listing."""
        if self.command is not None:
            return is_looking(self.command)
        return bool(self._words() & _SEARCHING) and not self._words() & _CHANGING

    def touches(self, result: str = "") -> list[Touch]:
        """The files that it read or changed if it succeeded.

        Editors that keep a file open name it in their result alone.
        """
        if self.command is not None:
            return [*touched_by(self.command), *self._patched()]
        path = self._path()
        patched = list(self._patched())
        words = self._words()
        if path is None and not patched and words & _CHANGING:
            told = _TOLD.search(result)
            path = (told[1] or told[2]) if told is not None else None
        if patched or path is None:
            return patched
        how = self._how(words)
        if how is None:
            return []
        first, last = self._lines() if how == "read" else (None, None)
        return [Touch(path, how, first, last)]

    def _how(self, words: frozenset[str]) -> How | None:
        command = self.arguments.get("command")
        if isinstance(command, str):  # of an editor: view, create, str_replace, insert
            words = frozenset(_NAME_WORDS.findall(command.lower())) or words
        if words & _DELETING:
            return "deleted"
        if words & {"write", "create", "overwrite", "save", "put"}:
            return "wrote"
        if words & _CHANGING or _CONTENTS & self.arguments.keys():
            return "edited"
        if words & _SEARCHING:
            return None
        return "read" if words & _READING else None

    def _words(self) -> frozenset[str]:
        return frozenset(word.lower() for word in _NAME_WORDS.findall(self.name))

    def _path(self) -> str | None:
        value = _first(self.arguments, _PATHS)
        return value if isinstance(value, str) and value and "\n" not in value else None

    def _patched(self) -> Iterator[Touch]:
        for value in self.arguments.values():
            if isinstance(value, str) and ("*** " in value or "+++ " in value):
                for found in _PATCHED.finditer(value):
                    path = found["named"] or found["path"]
                    if path != "/dev/null":
                        yield Touch(path, _PATCHES[found["how"]])

    def _lines(self) -> tuple[int | None, int | None]:
        view = self.arguments.get("view_range") or self.arguments.get("line_range")
        if isinstance(view, list) and len(view) == 2:
            first, last = _number(view[0]), _number(view[1])
            return first, last if last is None or last > 0 else None
        first = _number(_first(self.arguments, _FIRST))
        last = _number(_first(self.arguments, _LAST))
        count = _number(_first(self.arguments, _COUNT))
        if last is None and count is not None:
            first = first or 1
            last = first + count - 1
        return first, last


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call went."""

    failed: bool
    exit_code: int | None = None
    said: tuple[str, ...] = ()
    """The lines that report what went wrong."""
    runs_on: str | None = None
    """Under this name the command is still running."""


def outcome_of(call: Call, result: Mapping[str, Any]) -> Outcome:
    """How a call went, by what its result says; a result that says nothing is a success."""
    text = text_of(result)
    fields = _fields(text)
    exit_code = _exit_code(text, fields)
    if exit_code is None and (call.command or call.session):
        running = _RUNNING.search(text[:_EDGE])
        if running is not None:
            return Outcome(failed=False, runs_on=running[1])
    output = next(
        (fields[key] for key in ("output", "error", "stderr") if isinstance(fields.get(key), str)),
        text,
    )
    failed = (
        result.get("is_error") is True
        or result.get("status") == "error"
        or fields.get("is_error") is True
        or fields.get("success") is False
        or (bool(fields.get("error")) and fields.get("error") != "null")
    )
    if exit_code is not None:
        failed = failed or exit_code != 0
    elif not failed:
        failed = bool(_FAILED.match(text[:_EDGE]))
        if not failed and call.command is not None and hides_its_end(call.command):
            failed = not call.looks_only and _reports_errors(output)
    if failed and exit_code in (1, None) and call.looks_only:
        failed = False  # nothing found
    return Outcome(failed, exit_code, _error_lines(output) if failed else ())


def _exit_code(text: str, fields: Mapping[str, Any]) -> int | None:
    metadata = fields.get("metadata")
    for holder in (fields, metadata if isinstance(metadata, dict) else {}):
        for key in _EXIT_KEYS:
            number = _number(holder.get(key))
            if number is not None:
                return number
    # The last word counts: what ran may itself have told of another program's end.
    found = [*_EXIT.finditer(text[:_EDGE]), *_EXIT.finditer(text[-_EDGE:])]
    if not found:
        return None
    own = [match for match in found if text[: match.start()].strip() == ""]
    match = own[0] if own else found[-1]
    return int(match[1] or match[2])


def _reports_errors(text: str) -> bool:
    lines = text.split("\n")
    return any("warn" not in lines[index].lower() for index in alarms(lines))


def _error_lines(text: str) -> tuple[str, ...]:
    lines = text.split("\n")
    told = [index for index in alarms(lines) if not _EXIT.search(lines[index])][:_LINES]
    if not told:  # the end is where a command says how it went
        told = [index for index in range(len(lines)) if _telling(lines[index])][-2:]
    return tuple(dict.fromkeys(_line(lines[index], _SAID) for index in sorted(told)))


def _telling(line: str) -> bool:
    return any(letter.isalpha() for letter in line) and not _EXIT.search(line)


def _fields(text: str) -> Mapping[str, Any]:
    if text[:1] == "{" and len(text) < 1_000_000:
        try:
            fields = orjson.loads(text)
        except orjson.JSONDecodeError:
            return {}
        if isinstance(fields, dict):
            return fields
    return {}


def _first(arguments: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _line(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
