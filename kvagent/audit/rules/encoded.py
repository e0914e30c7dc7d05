"""Do texts hold what only programs read: pictures and files, encoded as letters?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvagent.audit.recent import Recent
from kvagent.audit.rule import Rule, Sighting
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Turn
from kvagent.chat import calls_of

# So long a run is no name, path, hash or key.
_LEAST = 1_000
_RUN = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
# Encoders that break lines do so after 60, 64 or 76 letters.
_WIDTHS = (60, 64, 72, 76)
_LINES = _LEAST // max(_WIDTHS)
# Of letters drawn from 64, nearly all occur among so many; those of words, numbers, hex do not.
_SAMPLE, _KINDS = 1_000, 40
# So begins what a maker has encrypted for itself (OpenAI's reasoning and compactions): it goes back
# as it came, and is no text for the model.
_SEALED = "gAAAA"

BASE64 = Rule(
    "KVA504",
    "base64-in-text",
    "warning",
    "context",
    "A text holds data encoded as base64.",
    "A picture, a PDF, an archive or a signature came as letters into a text: in a tool's result, "
    "an argument of a call, a pasted message. A model cannot read it so. It takes about a token for every one or "
    "two characters, far more than other text, and every later request carries it.",
    "Send pictures as image parts, and in place of other files a path, a handle or their text.",
    'content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]\n'
    "# and of a tool that returns a file:\n"
    'return {"saved_to": str(path), "bytes": path.stat().st_size}',
)

RULES = (BASE64,)


class Encoded:
    """Looks for long runs of base64 in new texts."""

    def __init__(self) -> None:
        self._told: Recent[tuple[int, bytes], int] = Recent(50_000)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """The encoded files among the new messages."""
        messages = turn.placed.snapshot.messages
        long = [number for number in turn.fresh if len(messages[number].raw) >= _LEAST]
        return self._among(turn, long) if long else ()

    def _among(self, turn: Turn, numbers: Iterable[int]) -> Iterable[Sighting]:
        for number in numbers:
            known = turn.placed.snapshot.messages[number]
            for field, text in _texts(turn.request.messages[number]):
                found = base64_in(text)
                if found is None:
                    continue
                at, size = found
                if self._told.get((turn.conversation, known.name)) is not None:
                    break
                self._told.put((turn.conversation, known.name), number)
                spot = spot_of(
                    turn,
                    number,
                    field=field,
                    character=at,
                    tokens=turn.size_of(number) * size // max(size, len(known.raw)),
                    excerpt=text[max(0, at - 40) : at + 120],
                )
                said = "Texts hold long runs of base64."
                yield Sighting(BASE64, known.role, spot, said, everywhere=True)
                break

    def end(self) -> Iterable[Sighting]:
        """Nothing: each was told when it came."""
        return ()


def base64_in(text: str) -> tuple[int, int] | None:
    """Where the first run of base64 begins, and how many characters such runs have together."""
    if len(text) < _LEAST:
        return None
    sizes = [*map(len, text.split())]
    longest = max(sizes, default=0)
    if longest < min(_WIDTHS):
        return None
    runs: list[tuple[int, int]] = []
    if longest >= _LEAST:
        runs += _long_words(text)
    if sum(map(sizes.count, _WIDTHS)) >= _LINES:
        runs += _equal_lines(text)
    real = [run for run in runs if _is_encoded(text[run[0] : run[0] + _SAMPLE])]
    if not real:
        return None
    return min(real)[0], sum(end - start for start, end in real)


def _long_words(text: str) -> Iterable[tuple[int, int]]:
    for run in _RUN.finditer(text):
        if run.end() - run.start() >= _LEAST:
            yield run.span()


def _equal_lines(text: str) -> Iterable[tuple[int, int]]:
    """Lines of one width, one after the other, each a single run."""
    at = start = count = 0
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if len(bare) in _WIDTHS and _RUN.fullmatch(bare):
            start, count = (start, count + 1) if count else (at, 1)
        else:
            if count >= _LINES:
                yield start, at
            count = 0
        at += len(line)
    if count >= _LINES:
        yield start, at


def _is_encoded(letters: str) -> bool:
    """Whether small and capital letters and digits occur, nearly all of them."""
    if letters.startswith(_SEALED):
        return False
    kinds = set(letters)
    mixed = any(map(str.islower, kinds)) and any(map(str.isupper, kinds))
    return mixed and any(map(str.isdigit, kinds)) and len(kinds - set("=\r\n\t ")) >= _KINDS


def _texts(message: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each text that a model reads, and its field; pictures are parts of their own."""
    content = message.get("content")
    if isinstance(content, str):
        yield "content", content
    elif isinstance(content, list):
        for number, part in enumerate(content):
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                yield f"content[{number}].text", part["text"]
    for number, call in enumerate(calls_of(message)):
        function = call.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
            yield f"tool_calls[{number}].function.arguments", function["arguments"]
