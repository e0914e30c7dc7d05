"""Does the mark stand below the first character in which two texts differ?"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kvagent.audit.report.screen.contrast import contrasted
from kvagent.audit.report.screen.layout import Layout
from kvagent.audit.rule import Contrast
from kvagent.prefixcache.seen import common_prefix
from tests.audit.report.terminal.telling import ENCODINGS, _File

TEXTS = st.text(
    st.sampled_from("ab \n\t\x1b\u202e界界한e\u0301\U0001f600 ") | st.characters(codec="utf-8"),
    max_size=200,
)


@example(" ", "", "a", 80, 0, "utf-8")
@given(TEXTS, TEXTS, TEXTS, st.integers(24, 120), st.integers(0, 4), ENCODINGS)
def test_the_mark_stands_below_the_first_character_that_differs(
    common: str, before: str, after: str, width: int, indent: int, encoding: str
) -> None:
    texts = common + before, common + after
    at = common_prefix(*texts)
    layout = Layout(Console(file=_File(encoding), width=width, color_system=None))
    lines = contrasted(Contrast(*texts, at), layout, indent=indent)
    plain = [line.plain for line in lines]
    assert len(plain) == 3
    column = len(plain[2]) - 1
    assert plain[2] == " " * column + "^"
    heads = []
    for text, line in zip(texts, plain[:2], strict=True):
        assert cell_len(line) <= width
        if not text:
            assert line.endswith("(nothing)")
            continue
        head = line
        while head and cell_len(head) > column:
            head = head[:-1]
        assert cell_len(head) == column
        heads.append(head[indent + len("before  ") :])
        rest = line[len(head) :]
        if len(text) > at and text[at].isascii() and text[at].isprintable():
            assert rest[0] == (text[at] if text[at:].strip(" ") else layout.letters("␣"))
        if len(text) == at:
            assert rest.strip() == ""
    assert len(set(heads)) <= 1


def test_a_wide_character_moves_the_mark_by_two() -> None:
    layout = Layout(Console(file=_File("utf-8"), width=80, color_system=None))
    lines = contrasted(Contrast("界\t1", "界\t2", 2), layout, indent=2)
    assert [line.plain for line in lines] == [
        "  before  界⇥1",
        "  now     界⇥2",
        "  " + " " * len("before  ") + "   ^",
    ]


def test_a_blank_at_the_end_is_seen() -> None:
    layout = Layout(Console(file=_File("utf-8"), width=80, color_system=None))
    assert [line.plain for line in contrasted(Contrast("end", "end ", 3), layout)] == [
        "before  end",
        "now     end␣",
        "           ^",
    ]
