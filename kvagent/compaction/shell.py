"""What did a command line read and change, and when is it the same as another?"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvagent.compaction.touched import Touch
from kvagent.compaction.words import word_set

# Programs that only look: what they print was seen, and nothing is open when they find nothing.
_LOOKING = word_set(
    "[ ag awk basename cat cd cut date df diff dirname du echo env file find fd fgrep egrep grep head history"
    " id jq less ls man more nl printenv printf ps pwd readlink realpath rg sort stat strings sleep tac tail"
    " test tr tree true type uname uniq wc which whoami xargs"
)
_LOOKING_GIT = word_set("blame branch diff grep log ls-files remote rev-parse show status")
_SHOWING = word_set("bat cat head less more nl tac tail")  # a file's text, whole or in part
_BEFORE = word_set("command env exec nice nohup sudo time timeout")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n")
_COMMENT = re.compile(r"^[ \t]*#.*$|(?<=\s)#\s.*$", re.MULTILINE)
_SEPARATORS = frozenset(("&&", "||", ";", "|", "|&", "&", "(", ")", "\n"))
_PRINTED = re.compile(r"(\d+),(\d+)p")  # sed -n '10,20p'
_OPEN_NAME = re.compile(r"[*?$`{]")
_LONGEST = 20_000  # characters of a command line that are looked at


@dataclass(frozen=True, slots=True)
class Simple:
    """One command of a command line: its words, the files it writes to, and whether it is a filter."""

    words: Sequence[str]
    outputs: Sequence[str]
    piped: bool
    """Whether it reads what the command before it wrote."""


def commands_of(line: str) -> list[Simple]:
    """The commands of a command line; what cannot be read is one word each."""
    text = _without_heredocs(line[:_LONGEST])
    text = _COMMENT.sub("", text).replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote
        tokens = text.split()
    found: list[Simple] = []
    words: list[str] = []
    outputs: list[str] = []
    piped, redirected = False, ""
    for token in [*tokens, ";"]:
        if token in _SEPARATORS or set(token) <= {";", "&", "|", "(", ")"}:
            if words or outputs:
                found.append(Simple(tuple(words), tuple(outputs), piped))
            piped = token in {"|", "|&"}
            words, outputs, redirected = [], [], ""
        elif set(token) <= set("<>&") and ("<" in token or ">" in token):
            redirected = token
            if words and words[-1].isdigit() and len(words[-1]) == 1:
                words.pop()  # the number of a stream: 2>
        elif redirected:
            if redirected in {">", ">>", ">|"} and not token.startswith(("&", "/dev/")):
                outputs.append(token)
            redirected = ""
        else:
            words.append(token)
    return found


def _without_heredocs(text: str) -> str:
    """The command line without what it gives a command to read."""
    kept: list[str] = []
    start = 0
    while (opening := _HEREDOC.search(text, start)) is not None:
        kept += [text[start : opening.start()], opening[3], "\n"]
        closing = re.compile(rf"^\s*{opening[2]}\s*$", re.MULTILINE).search(text, opening.end())
        if closing is None:
            return "".join(kept)
        start = closing.end()
    return "".join([*kept, text[start:]])


def is_looking(line: str) -> bool:
    """Whether the command line only looks at something."""
    return all(_looks(simple) for simple in commands_of(line))


def _looks(simple: Simple) -> bool:
    words = _bare(simple.words)
    if simple.outputs:
        return False
    if not words:
        return True
    name = posixpath.basename(words[0])
    if name == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in _LOOKING_GIT
    if name == "sed":
        return not any(word.startswith("-i") for word in words)
    return name in _LOOKING


def _bare(words: Sequence[str]) -> Sequence[str]:
    """Without what stands before the program: ``FOO=1 sudo``."""
    start = 0
    while start < len(words) and (
        words[start] in _BEFORE or re.fullmatch(r"[A-Za-z_]\w*=.*", words[start], re.DOTALL)
    ):
        start += 1
    return words[start:]


def aim_of(line: str) -> str:
    """What a command line is for: without ``cd``, redirections and the filters that follow.

    Equal for two runs of one thing, however much of its output was looked at.
    """
    parts = [
        " ".join(_bare(simple.words))
        for simple in commands_of(line)
        if not simple.piped and simple.words[:1] != ("cd",)
    ]
    return " && ".join(part for part in parts if part) or line.strip()


def hides_its_end(line: str) -> bool:
    """Whether another program's end is reported in place of its own: ``make 2>&1 | tail``."""
    found = commands_of(line)
    if not found:
        return False
    last = found[-1]
    return last.piped or (last.words[:1] in {("true",), ("echo",)} and len(found) > 1)


def touched_by(line: str) -> Iterator[Touch]:
    """The files that a command line read or changed, as far as it says so itself."""
    folder = ""
    for simple in commands_of(line):
        words = _bare(simple.words)
        if words[:1] == ("cd",) and len(words) > 1:
            folder = posixpath.join(folder, words[1])
            continue
        for path in simple.outputs:
            yield Touch(_at(folder, path), "wrote")
        if words:
            for touch in _touched(posixpath.basename(words[0]), words[1:]):
                if _OPEN_NAME.search(touch.path):
                    continue  # only the shell knows which files those are
                yield Touch(_at(folder, touch.path), touch.how, touch.first, touch.last)


def _touched(name: str, arguments: Sequence[str]) -> Iterator[Touch]:
    plain = [word for word in arguments if word and not word.startswith("-")]
    if name == "sed" and any(word.startswith("-i") for word in arguments):
        yield from (Touch(path, "edited") for path in plain[1:] if _is_path(path))
    elif name == "sed":
        lines = _PRINTED.fullmatch(plain[0]) if plain else None
        first, last = (int(lines[1]), int(lines[2])) if lines else (None, None)
        yield from (Touch(path, "read", first, last) for path in plain[1:] if _is_path(path))
    elif name in _SHOWING:
        # Which part `head -n 5` shows is not worth the trouble: not the whole, so not "read".
        whole = name not in {"head", "tail"}
        yield from (Touch(path, "read") for path in plain if whole and _is_path(path))
    elif name in {"tee", "touch"}:
        yield from (Touch(path, "wrote") for path in plain)
    elif name == "rm" or (name == "git" and plain[:1] == ["rm"]):
        yield from (Touch(path, "deleted") for path in plain if path != "rm")
    elif name in {"mv", "cp"} and len(plain) > 1:
        *sources, place = plain
        if name == "mv":
            yield from (Touch(path, "deleted") for path in sources)
        for path in sources:
            into_folder = len(sources) > 1 or place.endswith("/") or place in {".", ".."}
            at = posixpath.join(place, posixpath.basename(path)) if into_folder else place
            yield Touch(at, "wrote")


def _is_path(word: str) -> bool:
    return bool(re.fullmatch(r"[\w./~+@-]*[./][\w./~+@-]+", word))


def _at(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path)) if folder else path
