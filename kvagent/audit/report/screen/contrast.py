"""Where do two texts part?

One above the other, around the first character that differs, and a mark below it. Every character
is seen, and the mark stands where it should whatever the characters are.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

from kvagent.audit.report.page.visible import character, close
from kvagent.audit.report.screen.layout import Layout
from kvagent.audit.rule import Contrast

_LABELS = ("before", "now")
_NOTHING = "(nothing)"


def contrasted(contrast: Contrast, layout: Layout, *, indent: int = 0) -> list[Text]:
    """Both texts and the mark, three lines."""
    labels = [f"{label:<{max(map(len, _LABELS))}}  " for label in _LABELS]
    room = layout.width - indent - len(labels[0])
    at = contrast.offset
    gap = layout.letters("…")
    texts = contrast.before, contrast.after
    before = texts[0][:at] or texts[1][:at]
    if min(map(len, texts)) <= at:  # one ends there: nothing would show blanks in front of it
        seen = before.rstrip(" ")
        before = seen + character(" ") * (len(before) - len(seen))
    common, cut = _last(_shown(before, layout), room // 2 - cell_len(gap))
    common = gap + common if cut else common
    lines = []
    for label, text, style in zip(labels, texts, ("red", "green"), strict=True):
        line = Text(" " * indent).append(label, "dim")
        if not text:
            lines.append(line.append(layout.letters(_NOTHING), "dim"))
            continue
        tail = text[at:]
        if not tail.strip(" "):  # nothing shows where they end
            tail = character(" ") * len(tail)
        differs, rest = tail[:1], tail[1:]
        left = room - cell_len(common)
        one = _joined(_shown(differs, layout))
        other, more = _first(_shown(rest, layout), left - cell_len(one) - cell_len(gap))
        line.append(common).append(one, f"bold {style}").append(other, style)
        lines.append(layout.fitted(line.append(gap if more else "", "dim")))
    mark = " " * (indent + len(labels[0]) + cell_len(common)) + "^"
    return [*lines, Text(mark, "bold")]


def _shown(text: str, layout: Layout) -> list[str]:
    """Each character as it is seen."""
    return [layout.letters(close(one).removesuffix("\n").removesuffix("\t")) for one in text]


def _joined(characters: Iterable[str]) -> str:
    return "".join(characters)


def _last(characters: list[str], room: int) -> tuple[str, bool]:
    """As many of the last ones as there is room for, and whether some are left out."""
    kept = ""
    for number, one in enumerate(reversed(characters)):
        if cell_len(one + kept) > room:
            return kept, number < len(characters)
        kept = one + kept
    return kept, False


def _first(characters: list[str], room: int) -> tuple[str, bool]:
    kept = ""
    for one in characters:
        if cell_len(kept + one) > room:
            return kept, True
        kept += one
    return kept, False
