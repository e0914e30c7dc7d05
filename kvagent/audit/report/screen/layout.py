"""How do sentences and columns fit on a terminal?

Everything becomes lines that are no wider than the terminal, so that one knows how many there are
before the first is shown. Lines end between words; a word is cut only where it is wider than all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kvagent.audit.report.screen.letters import Letters

Part = str | tuple[str, str]
"""A text, or a text and its style."""

# Longer lines are hard to read.
_WIDEST = 120


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
        self, rows: Sequence[Sequence[Part]], left: Iterable[int] = (0,), *, indent: int = 0
    ) -> list[Text]:
        """A table without lines; a column is as wide as its widest cell.

        Args:
            rows: of cells; all have as many.
            left: the columns that begin at the left; the others end at the right.
            indent: blanks in front.
        """
        cells = [[self.text(cell) for cell in row] for row in rows]
        widths = [max(map(_wide, column)) for column in zip(*cells, strict=True)]
        begins = set(left)
        lines = []
        for row in cells:
            line = Text(" " * indent)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
                blanks = " " * (width - _wide(cell))
                line.append("  " if number and width else "")
                if number in begins:
                    line.append_text(cell).append(blanks)
                else:
                    line.append(blanks).append_text(cell)
            lines.append(line)
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


def _wide(text: Text) -> int:
    return cell_len(text.plain)
