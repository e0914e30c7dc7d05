"""What of a web page stands?

Its text, as a reader sees it: title, headings, paragraphs, links with their addresses, tables and
code. Nothing of scripts, styles and navigation. If that is still too long, as a document.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from html.parser import HTMLParser

from kvagent.shorten.composition import Wish, compose
from kvagent.shorten.markdown import outline_wishes
from kvagent.shorten.marker import marker
from kvagent.shorten.pieces import pieces_of
from kvagent.shorten.result import Shortened, count_lines
from kvagent.shorten.source import has_suffix

_NOTE = "html as text"
_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype html|html)\b", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(
    r"</?(?:a|article|body|br|code|dd|div|dl|dt|form|h[1-6]|head|header|img|input|li|link|main|meta"
    r"|nav|ol|p|path|pre|script|section|span|strong|style|svg|table|tbody|td|th|tr|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_TAGS, _SHARE = 20, 0.2  # so many, and so much of the text: a page without its beginning
_CODE = (".tsx", ".jsx", ".vue", ".svelte", ".js", ".ts", ".py", ".php", ".erb", ".md", ".patch")
_LONGEST = 4_000_000  # characters that are worth to be parsed

_DROPPED = frozenset(str.split("script style nav svg noscript template iframe object select"))
_VOID = frozenset(str.split("area base br col embed hr img input link meta source track wbr"))
_BLOCKS = frozenset(
    str.split(
        "address article aside blockquote body br dd details div dl dt fieldset figcaption figure"
        " footer form h1 h2 h3 h4 h5 h6 header hr html li main ol p pre section summary table"
        " tbody tfoot thead tr ul"
    )
)
_BLANKS = re.compile(r"[ \t\r\f\v\n\xa0]+")


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens a web page to at most `budget` characters; None if `text` is none, or if nothing of
    it has room.

    Counts are of lines of its text.
    """
    if not _is_page(text, source):
        return None
    page = page_text(text)
    if page is None or not page.strip():
        return None
    total = count_lines(page)
    whole = f"{marker(total, total, 'lines', handle, [_NOTE])}\n{page}"
    if len(whole) <= budget:
        return Shortened(whole, total, 0, "lines", lossless=False)
    pieces = pieces_of(page, longest=min(400, max(80, budget // 16)))
    first = Wish((0,), 1.0)
    wishes = (first, *outline_wishes(pieces.texts))
    result = compose(pieces, budget, wishes, total=total, handle=handle, notes=[_NOTE], known=known)
    return result if result.kept else None


def _is_page(text: str, source: str | None) -> bool:
    if len(text) > _LONGEST or "</" not in text or has_suffix(source, _CODE):
        return False
    if _PAGE.match(text):
        return True
    if text.count("</") < _TAGS // 2:
        return False
    tags = _TAG.findall(text[:20_000])
    return len(tags) >= _TAGS and sum(map(len, tags)) > _SHARE * min(len(text), 20_000)


def page_text(html: str) -> str | None:
    """The text of a page; None where it cannot be read."""
    reader = _Reader()
    try:
        reader.feed(html)
        reader.close()
    except (AssertionError, ValueError):  # what html.parser says of declarations that are none
        return None
    return reader.text()


class _Reader(HTMLParser):
    """Collects the lines of a page's text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[str] = []
        self._parts: list[str] = []
        self._title = ""
        self._in_title = False
        self._dropped: list[str] = []
        self._link: str | None = None
        self._link_begins = 0
        self._cells: list[str] | None = None
        self._before_cell: list[str] = []
        self._pre = 0
        self._opening = ""
        self._columns = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins an element."""
        if tag == "title" and not self._title:
            self._in_title = True
        elif tag in _DROPPED or self._dropped:
            if tag not in _VOID:
                self._dropped.append(tag)
        elif tag == "tr":
            self._end_line()
            self._cells = []
        elif tag in ("td", "th") and self._cells is not None:
            self._before_cell, self._parts = self._parts, []
        elif tag == "a":
            self._end_link()
            self._link = dict(attrs).get("href") or None
            self._link_begins = len(self._parts)
        elif tag == "img":
            self._parts.append(dict(attrs).get("alt") or "")
        elif tag == "pre":
            self._end_line()
            self._pre += 1
            if self._pre == 1:
                self._lines.append("```")
        elif tag == "code" and not self._pre:
            self._parts.append("`")
        elif tag in _BLOCKS:
            self._end_block()
            if tag == "li":
                self._opening = "- "
            elif len(tag) == 2 and tag[1].isdigit():
                self._opening = "#" * int(tag[1]) + " "

    def handle_endtag(self, tag: str) -> None:
        """Ends an element."""
        if tag == "title":
            self._in_title = False
        elif self._dropped:
            if tag in self._dropped:
                while self._dropped.pop() != tag:
                    pass
        elif tag in ("td", "th") and self._cells is not None:
            self._end_link()
            self._cells.append(self._take().replace("|", "\\|"))
            self._parts = self._before_cell
        elif tag == "tr" and self._cells is not None:
            self._end_row()
        elif tag == "a":
            self._end_link()
        elif tag == "pre" and self._pre:
            self._pre -= 1
            if not self._pre:
                self._lines += "".join(self._parts).strip("\n").split("\n")
                self._parts = []
                self._lines.append("```")
        elif tag == "code" and not self._pre:
            self._parts.append("`")
        elif tag == "table":
            self._columns = 0
        elif tag in _BLOCKS:
            self._end_block()

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._in_title:
            self._title += data
        elif not self._dropped:
            self._parts.append(data)

    def text(self) -> str | None:
        """All lines; the title first. None if it may have been dropped with what never ended."""
        if self._dropped:
            return None
        self._end_link()
        if self._cells is not None:
            self._end_row()
        self._end_line()
        title = _BLANKS.sub(" ", self._title).strip()
        return "\n".join([title, *self._lines] if title else self._lines)

    def _take(self) -> str:
        line = _BLANKS.sub(" ", "".join(self._parts)).strip()
        self._parts = []
        return line

    def _end_block(self) -> None:
        """A block within a cell or a preformatted text ends no line of the page."""
        if self._pre:
            return
        if self._cells is not None:
            self._parts.append(" ")
        else:
            self._end_line()

    def _end_line(self) -> None:
        self._end_link()
        line = self._take()
        if line:
            self._lines.append(self._opening + line)
            self._opening = ""

    def _end_link(self) -> None:
        if self._link is None:
            return
        label = _BLANKS.sub(" ", "".join(self._parts[self._link_begins :])).strip()
        if label and not self._link.startswith(("#", "javascript:", "data:")):
            self._parts.append(f" <{self._link}>")
        self._link = None

    def _end_row(self) -> None:
        self._end_link()
        rest = self._take()
        cells = [*(self._cells or ()), *([rest] if rest else [])]
        self._cells = None
        if any(cells):
            self._lines.append(f"| {' | '.join(cells)} |")
            if not self._columns:
                self._lines.append("|" + "---|" * len(cells))
            self._columns = len(cells)
