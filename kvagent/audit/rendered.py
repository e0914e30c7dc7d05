"""Which are the very tokens that a model's server computes on, and where among them is each message?

A prompt that only grew begins with the text of the one before it: what has been rendered, cut and
encoded of that is taken over. It is looked at again and again beside the real thing, and given up
where it is not the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kvagent.audit.composed import Texts, body_of, is_looked_at
from kvagent.audit.conversations import Placed
from kvagent.audit.pieces import Cut, Pieces
from kvagent.audit.prompts import Estimated, Ids, Tokens
from kvagent.audit.recent import Recent
from kvagent.audit.sent import Snapshot
from kvagent.backends.prompt import PromptError
from kvagent.chat import calls_of, text_of
from kvagent.tokens.tokenizer import TokenizerError

if TYPE_CHECKING:
    from kvagent.tokens.model import Model
    from kvagent.tokens.profile import TemplateProfile

# Characters and tokens of last prompts that are held; twice as many in the worst case.
_TEXTS = 2_000_000
_TOKENS = 500_000

# So many characters, from the end of a prompt, are encoded in one go to look at its pieces.
_LOOKED_AT = 8_000

# An option with such a value is as good as none.
_OFF = frozenset({b"false", b"null"})

# Where a message's text is looked for, it begins at most so many characters further on.
_REACH = 4_096
_NEEDLE = 160


class _Drawn(NamedTuple):
    """A prompt's text."""

    sent: Snapshot
    text: str
    before: str
    """That of the request before, if it is held."""
    cut: Cut | None
    """None where only whole prompts are encoded."""


class _Rendered(NamedTuple):
    """A prompt's tokens, as far as the next one may take them over."""

    sent: Snapshot
    ids: Ids[int]
    counts: array[int]
    """Tokens in front of each end of its cut."""
    places: Sequence[tuple[int, int]]
    """For each message, at which character it begins and where its text ends."""
    starts: Ids[int]
    same: int
    """Tokens that were taken over."""


class Exact:
    """By a model's own template and tokenizer.

    A request that the server would refuse, or that has pictures, is estimated.
    """

    exact = True

    def __init__(self, model: Model) -> None:
        self._model = model
        self._texts = Texts(model)
        self._pieces: Pieces | None = Pieces(model.tokenizer)
        """None where it turned out that pieces are not encoded as they are in a whole."""
        self._ahead: deque[tuple[Placed, _Drawn | str]] = deque()
        # Both by branch.
        self._drawn: Recent[int, _Drawn] = Recent(_TEXTS)
        self._rendered: Recent[int, _Rendered] = Recent(_TOKENS)
        self._count = 0
        self._seen: set[frozenset[str]] = set()
        """The options of prompts that were looked at from end to end: with some of them, others
        tokens are added at the ends."""
        self._instead = Estimated()

    @property
    def name(self) -> str:
        """What the tokens come from."""
        return self._model.name

    @property
    def profile(self) -> TemplateProfile | None:
        """What the template does to a prompt that grows."""
        return self._texts.profile

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""
        return self._model.count(text)

    def ahead(self, placed: Sequence[Placed]) -> None:
        """These requests are asked for behind those that were named before: what is new in all of
        them is encoded at once, meanwhile."""
        drawn = [(each, self._draw(each)) for each in placed]
        self._ahead.extend(drawn)
        if self._pieces is not None:
            self._pieces.ahead(
                piece
                for _, each in drawn
                if isinstance(each, _Drawn) and each.cut is not None
                for piece in each.cut.pieces
            )

    def tokens(self, placed: Placed) -> Tokens:
        """The tokens that the server computes on."""
        if self._ahead and self._ahead[0][0] is placed:
            drawn = self._ahead.popleft()[1]
        else:
            drawn = self._draw(placed)
        if isinstance(drawn, str):
            return self._estimated(placed, drawn)
        try:
            rendered = self._render(placed, drawn)
        except TokenizerError as error:
            return self._estimated(placed, str(error))
        self._rendered.put(placed.branch, rendered, len(rendered.ids))
        return Tokens(
            rendered.ids,
            rendered.starts,
            exact=True,
            texts=partial(self._both, placed, drawn),
            same=rendered.same,
        )

    def _both(self, placed: Placed, drawn: _Drawn) -> tuple[str, str]:
        """The text before, rendered anew if it is not held, and this one."""
        from kvagent.tokens.template import TemplateError

        if drawn.before or placed.before is None:
            return drawn.before, drawn.text
        try:
            return self._model.prompt(placed.before.again()), drawn.text
        except (PromptError, TemplateError, ValueError):
            return "", ""

    def _estimated(self, placed: Placed, fault: str) -> Tokens:
        made = self._instead.tokens(placed)
        return Tokens(made.ids, made.starts, exact=False, fault=fault)

    def _draw(self, placed: Placed) -> _Drawn | str:
        """The text of a prompt, or why there is none."""
        from kvagent.tokens.template import TemplateError

        last = None if placed.left is None else self._drawn.get(placed.left)
        if last is not None and last.sent is not placed.before:
            last = None  # one in between was estimated
        try:
            text, same = self._texts.text(placed, None if last is None else last.text)
            cut = None
            if self._pieces is not None:
                cut = self._pieces.cut(text, None if last is None else last.cut, same)
        except (PromptError, TemplateError, TokenizerError) as error:
            return str(error)
        drawn = _Drawn(placed.snapshot, text, "" if last is None else last.text, cut)
        self._drawn.put(placed.branch, drawn, len(text))
        return drawn

    def _render(self, placed: Placed, drawn: _Drawn) -> _Rendered:
        """Its tokens. Raises ``TokenizerError``."""
        self._count += 1
        options = placed.snapshot.options
        given = frozenset([name for name, raw in options.items() if raw not in _OFF])
        rendered = None
        if self._pieces is not None and drawn.cut is not None:
            rendered = self._in_pieces(placed, drawn, drawn.cut, self._pieces)
            if given in self._seen and self._holds(drawn.text, drawn.cut, rendered):
                return rendered
        # The whole prompt, with what the tokenizer adds at its ends.
        whole = array("I", self._model.tokens(body_of(placed)))
        if rendered is not None and rendered.ids == whole:
            self._seen.add(given)
            return rendered
        self._pieces = None
        length = len(drawn.text)
        places = _places(placed, drawn.text, [])
        ends, counts = array("I", [0, length]), array("I", [0, len(whole)])
        starts = _starts(places, array("I"), ends, counts)
        return _Rendered(placed.snapshot, whole, counts, places, starts, 0)

    def _holds(self, text: str, cut: Cut, rendered: _Rendered) -> bool:
        """Whether the end of a prompt is encoded in one go as it is in pieces, where one looks."""
        if not is_looked_at(self._count):
            return True
        at = cut.is_safe.find(1, bisect_left(cut.ends, len(text) - _LOOKED_AT))
        if at < 0:
            return True
        end = self._model.tokenizer.encode(text[cut.ends[at] :])
        return rendered.ids[rendered.counts[at] :] == array("I", end)

    def _in_pieces(self, placed: Placed, drawn: _Drawn, cut: Cut, pieces: Pieces) -> _Rendered:
        """Encoded piece by piece, from where it is not as before."""
        last = None if placed.left is None else self._rendered.get(placed.left)
        if last is None or last.sent is not placed.before:
            last, counts, ids = None, array("I", [0]), array("I")
            cut = cut if cut.kept == 1 else pieces.cut(drawn.text)
        else:
            counts = last.counts[: cut.kept]
            ids = last.ids[: counts[-1]]
        same = counts[-1]
        pieces.append(cut.pieces, ids, counts)
        known = 0
        if last is not None:
            known = min(bisect_right(last.places, cut.same, key=_end), placed.common)
        places = _places(placed, drawn.text, [] if last is None else last.places[:known])
        starts = array("I") if last is None else last.starts[:known]
        starts = _starts(places, starts, cut.ends, counts)
        return _Rendered(placed.snapshot, ids, counts, places, starts, same)


def _places(
    placed: Placed, text: str, known: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, int]]:
    """Where each message begins and its text ends, as far as its text is found in order."""
    snapshot = placed.snapshot
    places = list(known)
    at = places[-1][1] if places else 0
    tools = 2 * sum(map(len, snapshot.tools)) if len(places) <= snapshot.head else 0
    for number in range(len(places), len(snapshot.messages)):
        needle, size = _needle(placed.request.messages[number])
        reach = _REACH + len(needle) + (tools if number <= snapshot.head else 0)
        found = text.find(needle, at, at + reach) if needle else -1
        begin = found if found >= 0 else at
        if found >= 0:
            at = found + min(size, len(text) - found)
        places.append((begin if number else 0, at))
    return places


def _needle(message: Mapping[str, Any]) -> tuple[str, int]:
    """The beginning of what a template shows of a message as it is, and how long that is."""
    text = text_of(message).strip()
    if text:
        return text[:_NEEDLE], len(text)
    for call in calls_of(message):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return function["name"], len(function["name"])
    return "", 0


def _end(place: tuple[int, int]) -> int:
    return place[1]


def _starts(
    places: Sequence[tuple[int, int]],
    known: Ids[int],
    ends: array[int],
    counts: array[int],
) -> Ids[int]:
    """In front of which token each message begins, and last how many there are.

    Between two ends of pieces it is told in proportion.
    """
    starts = known
    for place, _ in places[len(known) :]:
        at = min(bisect_right(ends, place), len(ends) - 1)
        start, end, first, last = ends[at - 1], ends[at], counts[at - 1], counts[at]
        token = first
        if end > start:
            token += (last - first) * min(place - start, end - start) // (end - start)
        starts.append(max(starts[-1] if starts else 0, token))
    starts.append(counts[-1])
    return starts
