"""Which rows of a table still stand, and what is said of the others?"""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import lossless, shorten, table

cells = st.sampled_from(
    ["x", "1", "2.50", "007", "", "a b", "a,b", 'say "x"', "two\nlines", "é", "-3"]
)
tables = st.integers(2, 5).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=6, max_size=40)
)


def written(rows: list[list[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def with_header(rows: list[list[str]]) -> list[list[str]]:
    return [[f"column{n}" for n in range(len(rows[0]))], *rows]


@settings(max_examples=150, deadline=None)
@given(tables, st.sampled_from([",", "\t", ";"]))
def test_nothing_is_lost_without_loss(rows: list[list[str]], delimiter: str) -> None:
    text = written(with_header(rows), delimiter)
    whole = table.lossless(text, source="cat data.csv")
    if whole is None:
        return
    assert (whole.kept, whole.dropped, whole.lossless) == (len(rows), 0, True)
    lines = whole.text.split("\n", 1)[1]
    same: dict[str, str] = {}
    if lines.startswith("every row: "):
        said, lines = lines.removeprefix("every row: ").split("\n", 1)
        pairs = next(
            csv.reader(
                [said.replace('="', "=").replace('"' + delimiter, delimiter)], delimiter=delimiter
            )
        )
        same = dict(pair.partition("=")[::2] for pair in pairs)
    read = list(csv.DictReader(io.StringIO(lines), delimiter=delimiter))
    assert len(read) <= len(rows)  # a row of one empty cell is no row for a reader of CSV
    if all(re.fullmatch(r"\w*", cell) for row in rows for cell in row) and len(read) == len(rows):
        names = [f"column{n}" for n in range(len(rows[0]))]
        assert [[{**row, **same}[name] for name in names] for row in read] == rows


@settings(max_examples=150, deadline=None)
@given(tables, st.integers(300, 900), st.integers(1, 8))
def test_rows_said_to_be_kept_do_stand(rows: list[list[str]], budget: int, times: int) -> None:
    rows = rows * times
    text = written(with_header(rows))
    shortened = table.shorten(text, budget, handle="r1", source="data.csv")
    if shortened is None or shortened.lossless or len(shortened.text) > budget:
        return
    assert shortened.kept + shortened.dropped == len(rows)
    assert shorten(shortened.text, budget).text == shortened.text


def orders(count: int) -> str:
    head = "id,customer,city,amount,state\n"
    return head + "".join(
        f"{n},customer {n},{('Paris', 'Rome', 'Oslo')[n % 3]},{n * 7 % 100}.50,"
        f"{'void' if n == 177 else 'paid'}\n"
        for n in range(1, 301)
    )


def test_header_ends_and_what_all_rows_hold() -> None:
    shortened = shorten(orders(300), 1200, handle="r9")
    lines = shortened.text.split("\n")
    assert shortened.kept + shortened.dropped == 300
    assert lines[0].startswith(f"[kvagent: {shortened.kept} of 300 rows shown")
    assert lines[1] == "id,customer,city,amount,state"
    for said in ("id 1 to 300, 300 distinct", "amount 0.50 to 99.50, 100 distinct",
                 "city Rome 100, Oslo 100, Paris 100", "state paid 299, void 1"):  # fmt: skip
        assert said in lines[2]
    assert lines[3] == "1,customer 1,Rome,7.50,paid"
    assert "300,customer 300,Paris,0.50,paid" in lines
    assert sum(re.match(r"\d+,customer", line) is not None for line in lines) == shortened.kept


def test_the_row_that_differs_stands() -> None:
    assert "177,customer 177,Paris,39.50,void" in shorten(orders(300), 1200).text.split("\n")


def test_gaps_are_counted_in_rows_of_the_source() -> None:
    lines = shorten(orders(300), 1200).text.split("\n")
    position = 0
    for line in lines[3:]:
        if gap := re.fullmatch(r"\[… (\d+)(?:-(\d+))?\]", line):
            assert int(gap[1]) == position + 1
            position = int(gap[2] or gap[1])
        elif row := re.match(r"(\d+),", line):
            assert int(row[1]) == position + 1
            position += 1
    assert position == 300


def test_cells_keep_their_spelling() -> None:
    text = "code,amount,when\n" + "".join(f"00{n},1.{n % 5}0,2026-09-0{n % 9}\n" for n in range(40))
    shortened = shorten(text, 500)
    assert "000,1.00,2026-09-00" in shortened.text


def test_a_cell_may_hold_lines_and_be_very_long() -> None:
    rows = [[str(n), f"note {n}", "x"] for n in range(30)]
    rows[10][2] = "y" * 200_000
    rows[29][1] = "first line\nsecond line"
    shortened = shorten(written([["id", "note", "more"], *rows]), 1500)
    assert (shortened.unit, shortened.kept, shortened.dropped) == ("rows", 28, 2)
    assert "2 more cut" in shortened.text.split("\n")[0]
    assert '29,"first line⏎second line",x' in shortened.text.split("\n")


def test_a_long_cell_is_cut_and_not_the_cells_behind_it() -> None:
    rows = [[str(n), "word " * (400 if n == 3 else 2), f"key_{n}"] for n in range(12)]
    shortened = shorten(written([["id", "text", "key"], *rows]), 900)
    (row,) = [line for line in shortened.text.split("\n") if line.startswith("3,")]
    assert "characters …]" in row
    assert row.endswith(",key_3")


def test_tab_separated() -> None:
    text = "name\tsize\tkind\n" + "".join(f"file_{n}\t{n * 10}\tplain\n" for n in range(200))
    shortened = shorten(text, 700)
    assert shortened.unit == "rows"
    assert "every row: kind=plain" in shortened.text
    assert "size 0 to 1990" in shortened.text


@pytest.mark.parametrize("border", ["", "|"])
def test_drawn_tables_lose_their_padding_first(border: str) -> None:
    rule = "+----------+-----------------------+-------------+\n" if border else ""
    text = rule + f"{border} id       | name                  | state       {border}\n"
    text += rule or "----------+-----------------------+-------------\n"
    text += "".join(
        f"{border} {n:8} | {'user ' + str(n):21} | {'on' if n % 2 else 'off':11} {border}\n"
        for n in range(50)
    )
    text += rule + "(50 rows)\n"
    whole = lossless(text)
    assert whole is not None
    lines = whole.text.split("\n")
    assert lines[0] == "[… all 50 rows shown, without padding]"
    assert lines[1:4] == ["id|name|state", "0|user 0|off", "1|user 1|on"]
    assert lines[-1] == "(50 rows)"


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{n:6}\tdef function_{n}(a, b):\n" for n in range(1, 80)),  # numbered lines
        "".join(f"In the year {n}, as we know, little was done.\n" for n in range(80)),
        "".join(f"    call(a{n}, b, c)\n" for n in range(80)),
        "".join(f'{{"n": {n}, "a": 1, "b": 2}}\n' for n in range(80)) + "cut off {",
        "import a, b\nfrom x import c, d\n" + "".join(f"e{n}, f{n} = g(h)\n" for n in range(80)),
        "".join(
            f"src/a.ts({n},5): error TS2304: no name 'x{n}', did you mean y?\n" for n in range(80)
        ),
        "2026-01-02 10:00:00,123 INFO start\n" * 80,
        "a|b\n" * 3,
        "|" * 3000,
        "," * 3000,
        "\t\n" * 300,
        '"' + ",\n" * 300,
    ],
)
def test_what_is_no_table(text: str) -> None:
    assert table.shorten(text, 400) is None
    assert table.lossless(text) is None


def test_a_short_budget_is_left_to_others() -> None:
    assert table.shorten(orders(300), 299) is None
    assert len(shorten(orders(300), 100).text) <= 100
