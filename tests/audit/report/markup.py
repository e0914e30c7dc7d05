"""Of which tags and texts does a page consist? Read strictly: what is opened is closed, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"link", "meta"})
# Shapes of SVG close themselves.
_SELF_CLOSED = frozenset({"line", "path", "rect", "use"})


@dataclass
class Element:
    """A tag with what is in it."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None
    content: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All the text within."""
        return "".join(each if isinstance(each, str) else each.text for each in self.content)

    @property
    def children(self) -> list[Element]:
        """The elements right within."""
        return [each for each in self.content if isinstance(each, Element)]

    def all(self) -> list[Element]:
        """This and everything in it."""
        return [self, *(each for child in self.children for each in child.all())]

    def find(self, tag: str, look: str = "") -> list[Element]:
        """The elements with a tag, and a class."""
        return [
            each
            for each in self.all()
            if each.tag == tag and (not look or look in each.attributes.get("class", "").split())
        ]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {}, None)
        self.open = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.open)
        self.open.content.append(element)
        if tag not in _VOID:
            self.open = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _SELF_CLOSED
        self.open.content.append(Element(tag, {n: v or "" for n, v in attrs}, self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.tag == tag, f"</{tag}> closes <{self.open.tag}>"
        assert self.open.parent is not None
        self.open = self.open.parent

    def handle_data(self, data: str) -> None:
        self.open.content.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parsed(page: str) -> Element:
    """The page's html element."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert parser.open is parser.root, f"<{parser.open.tag}> is not closed"
    (html,) = parser.root.children
    return html
