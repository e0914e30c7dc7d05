"""How do sentences and columns fit on a terminal?

Everything becomes lines that are no wider than the terminal, so that one knows how many there are
before the first is shown. Lines end between words; a word is cut only where it is wider than all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kvagent.audit.report.screen.letters import Letters

Part = str | tuple[str, str]
"""A text, or a text and its style."""

# Longer lines are hard to read; a column of texts has so many cells before others are left out.
_WIDEST, _TEXT = 120, 8


class Layout:
    """Lays texts out for a console."""

    def __init__(self, console: Console) -> None:
        self.letters = Letters(console.encoding)
        self.width = max(20, min(console.width, _WIDEST))
        self._console = console

    def text(self, *parts: Part) -> Text:
        """One line of safe characters; how wide it is nobody looks at."""
        line = Text()
        for part in parts:
            told, style = (part, "") if isinstance(part, str) else part
            line.append(self.letters(told), style)
        return line

    def paragraph(self, *parts: Part, indent: int = 0, hanging: int | None = None) -> list[Text]:
        """Lines that end between words.

        Args:
            parts: what they say.
            indent: blanks in front of the first line.
            hanging: blanks in front of the others; None: as many.
        """
        rest = indent if hanging is None else hanging
        text = self.text(*parts)
        text.rstrip()
        if cell_len(text.plain) <= self.width - indent:
            return [Text(" " * indent).append_text(text)]
        # The first line has other room than the others: it is wrapped with blanks that are cut off.
        blanks = max(indent, rest) - rest
        padded = Text("\xa0" * blanks).append_text(text) if blanks else text
        lines = []
        for number, line in enumerate(
            padded.wrap(self._console, self.width - rest, overflow="fold", tab_size=1)
        ):
            line.rstrip()
            own = line[blanks:] if number == 0 and blanks else line
            lines.append(Text(" " * (indent if number == 0 else rest)).append_text(own))
        return lines

    def columns(
        self,
        rows: Sequence[Sequence[Part]],
        left: Iterable[int] = (0,),
        *,
        indent: int = 0,
        room: int | None = None,
        spare: Sequence[int] = (),
        wraps: int | None = None,
    ) -> list[Text]:
        """A table without lines; a column is as wide as its widest cell, as long as there is room.

        Args:
            rows: of cells; all have as many.
            left: the columns that begin at the left; the others end at the right.
            indent: blanks in front.
            room: cells that there are for it; None: all of the terminal.
            spare: the columns to leave out where there is too little room, the first one first.
            wraps: the column of texts that go on in further lines where there is too little room.
        """
        cells = [[self.text(cell) for cell in row] for row in rows]
        widest = dict(enumerate(max(map(_wide, column)) for column in zip(*cells, strict=True)))
        widths = _kept(widest, (self.width if room is None else room) - indent, spare, wraps)
        begins = set(left)
        lines = []
        for row in cells:
            parts = {at: self._folded(row[at], width) for at, width in widths.items()}
            for number in range(max(map(len, parts.values()))):
                line = Text(" " * indent)
                for place, (at, width) in enumerate(widths.items()):
                    cell = parts[at][number] if number < len(parts[at]) else Text()
                    blanks = " " * (width - _wide(cell))
                    line.append("  " if place and width else "")
                    if at in begins:
                        line.append_text(cell).append(blanks)
                    else:
                        line.append(blanks).append_text(cell)
                lines.append(line)
        return lines

    def _folded(self, cell: Text, width: int) -> Sequence[Text]:
        """A cell in lines of so many cells."""
        if _wide(cell) <= width:
            return [cell]
        lines = list(cell.wrap(self._console, width, overflow="fold", tab_size=1))
        for line in lines:
            line.rstrip()
        return lines

    def fitted(self, line: Text) -> Text:
        """The line without blanks at its end, and cut where even one column would be too wide."""
        line.truncate(self.width, overflow="crop")
        line.rstrip()
        return line

    def name(self, text: str, room: int) -> str:
        """A name or path in so many cells, if need be without its middle."""
        shown = self.letters(text)
        if cell_len(shown) <= room:
            return shown
        gap = self.letters("…")
        room -= cell_len(gap)
        head, tail = "", ""
        for one in shown:
            if cell_len(head + one) > room // 3:
                break
            head += one
        for one in reversed(shown):
            if cell_len(one + tail) > room - cell_len(head):
                break
            tail = one + tail
        return head + gap + tail

    def begins(self, text: str, room: int) -> str:
        """The beginning of a text, in so many cells."""
        shown = self.letters(text)
        if cell_len(shown) <= room:
            return shown
        gap = self.letters("…")
        kept = ""
        for one in shown:
            if cell_len(kept + one) > room - cell_len(gap):
                break
            kept += one
        return kept.rstrip() + gap


def _kept(
    widths: Mapping[int, int], room: int, spare: Iterable[int], wraps: int | None
) -> dict[int, int]:
    """How wide the columns are for which there is room."""
    kept = dict(widths)
    least = {} if wraps is None else {wraps: min(kept[wraps], _TEXT)}
    for at in spare:
        if _together({**kept, **least}) <= room:
            break
        del kept[at]
    if wraps is not None:
        others = _together(kept) - kept[wraps]
        kept[wraps] = min(kept[wraps], max(1, room - others))
    return kept


def _together(widths: Mapping[int, int]) -> int:
    """How wide a row is: there is room between columns, unless there is nothing in one."""
    return sum(width + 2 * (place > 0 < width) for place, width in enumerate(widths.values()))


def _wide(text: Text) -> int:
    return cell_len(text.plain)
