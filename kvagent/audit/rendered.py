"""Which are the very tokens that a model's server computes on, without rendering all of it each turn?

A prompt that only grew begins with the text of the one before it. What has been cut and encoded of
that is taken over. Where a template is known to write each message by itself, not even the text is
rendered again: the new messages are rendered behind a short conversation. Both are looked at again
and again beside the real thing, and given up where they are not the same.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kvagent.audit.conversations import Placed
from kvagent.audit.difference import alike
from kvagent.audit.prompts import Estimated, Ids, Tokens
from kvagent.audit.recent import Recent
from kvagent.audit.sent import Snapshot
from kvagent.backends.prompt import PromptError
from kvagent.chat import calls_of, text_of

if TYPE_CHECKING:
    from kvagent.tokens.model import Model
    from kvagent.tokens.profile import TemplateProfile

# Tokens of pieces, and characters of last prompts, that are held; twice as many in the worst case.
_PIECES = 500_000
_TEXTS = 4_000_000

# A longer prompt is encoded as a whole only where it must be: it takes a few hundred bytes a token.
_LOOKED_AT = 500_000

# Special tokens as models have them; whether one is, the tokenizer is asked.
_MARKER = re.compile(r"<[|｜][^<>|｜\s]{1,60}[|｜]>|<[a-z_]{3,30}>|\[/?[A-Z_]{3,30}\]|</?s>")
_BESIDE = (("a", "a"), ("\n", "\n"), (" ", " "), (".", "<"))

# Where a message's text is looked for, it begins at most so many characters further on.
_REACH = 4_096
_NEEDLE = 160

# What a template may do and still write each message by itself.
_LOCAL = frozenset({"arguments_rewritten", "content_trimmed", "ignored", "results_merged"})

_ASKED: Mapping[str, Any] = {"role": "user", "content": "x"}
_CALLED: Mapping[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "abcdefgh1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    ],
}
_ANSWERED: Mapping[str, Any] = {"role": "tool", "tool_call_id": "abcdefgh1", "content": "x"}
_CONTEXTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "user": (_ASKED,),
    "assistant": (_ASKED, {"role": "assistant", "content": "x"}),
    "called": (_ASKED, _CALLED),
    "tool": (_ASKED, _CALLED, _ANSWERED),
}
"""By what the last message sent was: the shortest conversation that ends so."""


class _Border(NamedTuple):
    """A place in a prompt at which one token ends and another begins."""

    characters: int
    tokens: int
    is_end: bool
    """Whether nothing behind it changes what stands in front of it: a special token ends here."""


_START = _Border(0, 0, is_end=True)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A prompt, as far as the next one may take it over."""

    sent: Snapshot
    text: str
    ids: Ids[int]
    borders: Sequence[_Border]
    """Around each special token, and at the beginning."""
    places: Sequence[tuple[int, int]]
    """For each message, where it begins and where its text ends."""
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
        self._last: Recent[int, _Rendered] = Recent(_TEXTS)
        self._held: Recent[str, Ids[int]] = Recent(_PIECES)
        self._contexts: dict[tuple[Any, ...], tuple[Sequence[Mapping[str, Any]], str]] = {}
        self._markers: dict[str, Ids[int] | None] = {}
        self._cut, self._composed = 0, 0
        self._in_pieces = True
        self._local: bool | None = None
        self._profile: TemplateProfile | None = None
        self._profiled = False
        self._instead = Estimated()

    @property
    def name(self) -> str:
        """What the tokens come from."""
        return self._model.name

    def count(self, text: str) -> int:
        """The tokens of a text by itself."""
        return self._model.count(text)

    def tokens(self, placed: Placed) -> Tokens:
        """The tokens that the server computes on."""
        from kvagent.tokens.template import TemplateError
        from kvagent.tokens.tokenizer import TokenizerError

        last = None if placed.left is None else self._last.get(placed.left)
        if last is not None and last.sent is not placed.before:
            last = None  # one in between was estimated
        try:
            text, same = self._text(placed, last)
            rendered = self._encoded(placed, text, last, same)
        except (PromptError, TemplateError, TokenizerError) as error:
            made = self._instead.tokens(placed)
            return Tokens(made.ids, made.starts, exact=False, fault=str(error))
        size = len(text) + 8 * len(rendered.ids)
        self._last.put(placed.branch, rendered, size)
        before = "" if last is None else last.text
        return Tokens(
            rendered.ids,
            rendered.starts,
            exact=True,
            text=text,
            before=before,
            same=rendered.same,
        )

    @property
    def profile(self) -> TemplateProfile | None:
        """What the template does to a prompt that grows."""
        if not self._profiled:
            from kvagent.tokens.profile import profile_of

            self._profiled = True
            try:
                self._profile = profile_of(self._model.template)
            except (PromptError, ValueError):
                self._profile = None
        return self._profile

    # The text.

    def _text(self, placed: Placed, last: _Rendered | None) -> tuple[str, int]:
        """The text, and how many of its characters begin the one before."""
        request = placed.request
        composed = None if last is None else self._grown(placed, last)
        if composed is not None:
            self._composed += 1
            if not _is_looked_at(self._composed):
                return composed
        text = self._model.prompt(_body(request.options, request.tools, request.messages))
        if composed is not None and composed[0] != text:
            self._local = False
        return text, 0 if last is None else alike(last.text, text)

    def _grown(self, placed: Placed, last: _Rendered) -> tuple[str, int] | None:
        """The same, if the request only adds messages and the template writes each by itself."""
        if not placed.only_grew:
            return None
        fresh = placed.request.messages[placed.common :]
        ends = last.sent.messages[-1]
        role = "called" if b'"tool_calls":[{' in ends.raw else ends.role
        if not fresh or role not in _CONTEXTS or not self._is_local():
            return None
        context, options = _CONTEXTS[role], placed.request.options
        key = (
            role,
            *(str(message.get("role")) for message in fresh),
            *placed.snapshot.options.items(),
        )
        if key not in self._contexts:
            if len(self._contexts) > 1_000:
                self._contexts.clear()
            self._contexts[key] = self._shortest(context, options, fresh)
        context, before = self._contexts[key]
        after = self._model.prompt(_body(options, (), (*context, *fresh)))
        same = alike(before, after)
        gone = before[same:]
        if not last.text.endswith(gone):
            return None
        kept = len(last.text) - len(gone)
        return last.text[:kept] + after[same:], kept

    def _shortest(
        self,
        context: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        fresh: Sequence[Mapping[str, Any]],
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """The end of a context behind which messages are written as behind all of it, and its text."""
        from kvagent.tokens.template import TemplateError

        def written(start: int) -> tuple[str, str, str]:
            before = self._model.prompt(_body(options, (), context[start:]))
            after = self._model.prompt(_body(options, (), (*context[start:], *fresh)))
            same = alike(before, after)
            return before, before[same:], after[same:]

        whole, *changes = written(0)
        for start in range(len(context) - 1, 0, -1):
            try:
                before, *others = written(start)
            except (PromptError, TemplateError):
                continue  # no conversation begins so
            if others == changes:
                return context[start:], before
        return context, whole

    def _is_local(self) -> bool:
        if self._local is None:
            self._local = False
            if self._model.tool_template is None and self.profile is not None:
                self._local = self.profile.worst().keys() <= _LOCAL
        return self._local

    # Its tokens.

    def _encoded(self, placed: Placed, text: str, last: _Rendered | None, same: int) -> _Rendered:
        self._cut += 1
        whole = None
        is_looked_at = self._cut == 1 or (len(text) <= _LOOKED_AT and _is_looked_at(self._cut))
        if not self._in_pieces or is_looked_at:
            request = placed.request
            # The whole prompt, with what the tokenizer adds at its ends.
            whole = self._model.tokens(_body(request.options, request.tools, request.messages))
        if self._in_pieces:
            rendered = self._in_parts(placed, text, last, same)
            if whole is None or rendered.ids == array("I", whole):
                return rendered
            self._in_pieces = False
        ids = array("I", whole or ())
        return self._with_places(placed, text, ids, [_START], None, 0)

    def _in_parts(self, placed: Placed, text: str, last: _Rendered | None, same: int) -> _Rendered:
        """Encoded piece by piece, from where it is not as before."""
        at = tokens = 0
        borders = [_START]
        ids: Ids[int] = array("I")
        if last is not None:
            kept = bisect_right(last.borders, (same, len(last.ids), True))
            while not last.borders[kept - 1].is_end:
                kept -= 1
            borders = list(last.borders[:kept])
            at, tokens, _ = borders[-1]
            ids = last.ids[:tokens]
        start = at
        for found in _MARKER.finditer(text, at):
            token = self._marker(found[0])
            if token is None:
                continue
            if found.start() > at:
                ids += self._piece(text[at : found.start()])
                borders.append(_Border(found.start(), len(ids), is_end=False))
            ids += token
            at = found.end()
            borders.append(_Border(at, len(ids), is_end=True))
        if at < len(text):
            ids += self._piece(text[at:])
        return self._with_places(placed, text, ids, borders, last, start)

    def _with_places(
        self,
        placed: Placed,
        text: str,
        ids: Ids[int],
        borders: Sequence[_Border],
        last: _Rendered | None,
        same: int,
    ) -> _Rendered:
        """Where each message stands; of the first ``same`` characters it is known."""
        places: list[tuple[int, int]] = []
        starts: Ids[int] = array("I")
        if last is not None:
            known = bisect_right(last.places, same, key=_end)
            known = min(known, placed.common)
            places, starts = list(last.places[:known]), last.starts[:known]
        _find(text, placed, places)
        ends = [*borders, _Border(len(text), len(ids), is_end=False)]
        for place, _ in places[len(starts) :]:
            starts.append(max(starts[-1] if starts else 0, _token_at(place, ends)))
        starts.append(len(ids))
        taken = borders[bisect_right(borders, (same, len(ids), True)) - 1].tokens if same else 0
        return _Rendered(placed.snapshot, text, ids, borders, places, starts, taken)

    def _piece(self, text: str) -> Ids[int]:
        held = self._held.get(text)
        if held is None:
            held = array("I", self._model.tokenizer.encode(text))
            self._held.put(text, held, len(held) + 16)
        return held

    def _marker(self, text: str) -> Ids[int] | None:
        """The token, if it is one that joins nothing beside it."""
        if text in self._markers:
            return self._markers[text]
        encode = self._model.tokenizer.encode
        ids = encode(text)
        is_special = len(ids) == 1 and all(
            encode(before + text + after) == [*encode(before), *ids, *encode(after)]
            for before, after in _BESIDE
        )
        made = array("I", ids) if is_special else None
        if len(self._markers) < 100_000:
            self._markers[text] = made
        return made


def _body(
    options: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    messages: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    body = {**options, "messages": list(messages)}
    return {**body, "tools": list(tools)} if tools else body


def _find(text: str, placed: Placed, places: list[tuple[int, int]]) -> None:
    """Add where each further message begins and ends, as far as its text is found in order."""
    snapshot = placed.snapshot
    at = places[-1][1] if places else 0
    tools = 2 * sum(map(len, snapshot.tools))
    for number in range(len(places), len(snapshot.messages)):
        needle, size = _needle(placed.request.messages[number])
        reach = _REACH + len(needle) + (tools if number <= snapshot.head else 0)
        found = text.find(needle, at, at + reach) if needle else -1
        begin = found if found >= 0 else at
        if found >= 0:
            at = found + min(size, len(text) - found)
        places.append((begin if number else 0, at))


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


def _token_at(place: int, borders: Sequence[_Border]) -> int:
    """The token at a character; between two borders, in proportion."""
    at = min(bisect_right(borders, (place, 1 << 60, True)), len(borders) - 1)
    (start, first, _), (end, last, _) = borders[at - 1], borders[at]
    if end <= start:
        return first
    return first + (last - first) * min(place - start, end - start) // (end - start)


def _is_looked_at(number: int) -> bool:
    """Whether it is 1, 4, 16, ...: there one looks at the whole, ever more rarely."""
    return number & (number - 1) == 0 and number.bit_length() % 2 == 1
