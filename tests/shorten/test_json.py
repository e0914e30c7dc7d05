"""What of JSON is still there, as its source spelled it?"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import Shortened, lossless, shorten
from kvagent.shorten import json as json_shortener
from kvagent.shorten.marker import is_marked

WORDS = [
    "",
    "open",
    "null",
    "true",
    "007",
    "1e5",
    "a,b",
    'say "x"',
    " x",
    "x ",
    "é\n",
    "[x]",
    "{",
    "-",
]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(WORDS), st.text(max_size=8)
)
keys = st.sampled_from(["id", "name", "a.b", "a", "b", "(key)", "", "größe", 'q"'])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
records = st.builds(
    lambda items, times: items * times,
    st.lists(st.dictionaries(keys, values, min_size=1, max_size=4), min_size=1, max_size=6),
    st.integers(5, 8),
)
wraps = st.sampled_from(["array", "under a key", "one a line"])
indents = st.sampled_from([None, 2])


def written(items: list[Any], wrap: str, indent: int | None) -> str:
    if wrap == "one a line":
        return "\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    whole = items if wrap == "array" else {"total": len(items) + 99, "items": items, "next": None}
    return json.dumps(whole, ensure_ascii=False, indent=indent)


# -- reading a table again: nothing is lost in it

_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')


def cells_of(row: str) -> list[str]:
    """The cells of a row, by what they begin with."""
    cells: list[str] = []
    position = 0
    while True:
        if row[position : position + 1] in ('"', "{", "["):
            _, end = json.JSONDecoder().raw_decode(row, position)
        else:
            end = row.find(",", position)
            end = len(row) if end < 0 else end
        cells.append(row[position:end])
        if end >= len(row):
            return cells
        position = end + 1


def value_of(cell: str) -> Any:
    try:
        return json.loads(cell)
    except json.JSONDecodeError:
        return cell


def path_of(name: str) -> tuple[str, ...]:
    parts: list[str] = []
    position = 0
    while True:
        quoted = _LITERAL.match(name, position)
        end = quoted.end() if quoted else name.find(".", position) % (len(name) + 1)
        parts.append(json.loads(quoted[0]) if quoted else name[position:end])
        if end >= len(name):
            return tuple(parts)
        position = end + 1


def put(item: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        item = item.setdefault(key, {})
    item[path[-1]] = value


def records_in(lines: list[str], unit: str) -> list[Any]:
    constants: list[tuple[tuple[str, ...], Any]] = []
    opening = f"every one of the {unit}: "
    if lines[0].startswith(opening):
        rest = lines.pop(0).removeprefix(opening)
        while rest:
            name = re.match(r'(?:"(?:[^"\\]|\\.)*"|[^"=])*', rest)
            assert name is not None
            rest = rest[name.end() + 1 :]
            (cell, *_) = cells_of(rest)
            constants.append((path_of(name[0]), value_of(cell)))
            rest = rest[len(cell) + 1 :]
    columns = [path_of(name) for name in columns_of(lines.pop(0))]
    items: list[Any] = []
    for line in lines:
        item: dict[str, Any] = {}
        for path, value in constants:
            put(item, path, value)
        for path, cell in zip(columns, cells_of(line), strict=True):
            if cell:
                put(item, path, value_of(cell))
        items.append(item)
    return items


def columns_of(line: str) -> list[str]:
    return re.findall(r'(?:^|,)((?:"(?:[^"\\]|\\.)*"|[^",])*)', line)


@settings(max_examples=100, deadline=None)
@given(records, wraps, indents)
def test_a_table_holds_all_that_the_records_did(
    items: list[Any], wrap: str, indent: int | None
) -> None:
    shorter = json_shortener.lossless(written(items, wrap, indent), handle="r1")
    if shorter is None or "as a table" not in shorter.text.split("\n")[0]:
        return
    assert (shorter.kept, shorter.dropped, shorter.lossless) == (len(items), 0, True)
    lines = shorter.text.split("\n")[1:]
    if wrap == "under a key":
        around = json.loads(lines.pop(0))
        assert around["total"] == len(items) + 99
        assert around["next"] is None
    assert records_in(lines, shorter.unit) == items


# -- what holds for all JSON


def check(text: str, shortened: Shortened, budget: int) -> None:
    assert len(shortened.text) <= min(len(text), budget)
    assert shortened.kept >= 0
    assert shortened.dropped >= 0
    if shortened.lossless:
        assert shortened.dropped == 0


@settings(max_examples=100, deadline=None)
@given(values, indents, st.integers(200, 900), st.integers(1, 60))
def test_any_value_in_any_room(value: Any, indent: int | None, budget: int, times: int) -> None:
    text = json.dumps([value] * times, indent=indent)
    shortened = shorten(text, budget, handle="r1")
    check(text, shortened, budget)
    assert shortened == shorten(text, budget, handle="r1")
    assert shorten(shortened.text, budget, handle="r1").text == shortened.text
    assert shortened.text == text or is_marked(shortened.text)


@settings(max_examples=100, deadline=None)
@given(records, wraps, st.integers(300, 1500))
def test_items_said_to_be_kept_do_stand(items: list[Any], wrap: str, budget: int) -> None:
    text = written(items, wrap, None)
    shortened = json_shortener.shorten(text, budget, handle="r1")
    if shortened is None or shortened.lossless or shortened.unit != "items":
        return
    assert shortened.kept + shortened.dropped == len(items)
    body = shortened.text.split("\n")[1:]
    whole = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items]
    if "as a table" in shortened.text.split("\n")[0]:
        as_table = json_shortener.shorten(text, 10**6)
        if as_table is None or "as a table" not in as_table.text:
            return  # not shorter with all of its rows
        whole = as_table.text.split("\n")[-len(items) :]
    assert sum(row in body for row in whole) >= shortened.kept


# -- the pitfalls, by name


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": n, "name": f"user {n}", "mail": f"u{n}@example.org", **more} for n in range(count)
    ]


def test_a_count_field_that_contradicts_is_not_believed() -> None:
    text = json.dumps({"total": 120, "items": rows(16)}, indent=2)
    shortened = shorten(text, 500)
    assert shortened.kept + shortened.dropped == 16
    assert '"total":120' in shortened.text
    assert "[16 items below]" in shortened.text


def test_fields_of_a_small_object_that_hold_something_stay() -> None:
    text = json.dumps({"id": 7, "state": "ok", "log": "x" * 5000, "owner": {"name": "Ann"}})
    shortened = shorten(text, 400)
    for kept in ('"id":7', '"state":"ok"', '"owner":{"name":"Ann"}'):
        assert kept in shortened.text
    assert (shortened.kept, shortened.dropped, shortened.unit) == (3, 1, "values")


def test_arrays_of_strings_are_marked_where_they_are_cut() -> None:
    text = json.dumps([f"name-{n:04}" for n in range(300)])
    shortened = shorten(text, 600)
    assert shortened.unit == "items"
    assert shortened.kept + shortened.dropped == 300
    standing = sum(f'"name-{n:04}"' in shortened.text.split("\n") for n in range(300))
    assert standing == shortened.kept
    assert "[… " in shortened.text.split("\n", 1)[1]


def test_null_absent_and_empty_are_three_things() -> None:
    items = [
        {"id": n, "note": [None, "", "x"][n % 3], **({"tag": ""} if n % 2 else {})}
        for n in range(40)
    ]
    shorter = lossless(json.dumps(items, indent=1))
    assert shorter is not None
    lines = shorter.text.split("\n")
    assert lines[1] == "id,note,tag"
    assert lines[2:5] == ["0,null,", '1,"",""', "2,x,"]


@pytest.mark.parametrize(
    "number", ["1.10", "1e5", "1E+2", "-0", "12345678901234567890123", "0.30000000000000004", "1.0"]
)
def test_numbers_keep_their_spelling(number: str) -> None:
    text = "[" + ", ".join(f'{{"n": {number}, "k": {n}}}' for n in range(30)) + "]"
    shortened = shorten(text, 260)
    assert f"n={number}" in shortened.text
    whole = shorten('{"a":   ' + number + ', "b": "' + "x" * 300 + '"}', 260)
    assert f'"a":{number}' in whole.text


def test_leading_zeros_stay_strings() -> None:
    items = [{"zip": f"0{n}", "n": n} for n in range(1000, 1040)]
    shorter = lossless(json.dumps(items))
    assert shorter is not None
    assert '"01007",1007' in shorter.text.split("\n")


def test_a_number_that_is_none() -> None:
    text = '{"a": NaN, "b": [Infinity, -Infinity], "c": "' + "x" * 900 + '"}'
    assert '"a":NaN,"b":[Infinity,-Infinity]' in shorten(text, 400).text


def test_a_cell_longer_than_any_csv_reader_takes() -> None:
    items = [*rows(20), {"id": 20, "name": "x" * 200_000, "mail": "last@example.org"}]
    shortened = shorten(json.dumps(items), 3000)
    assert "last@example.org" in shortened.text
    assert "[… " in shortened.text
    assert "1 more cut" in shortened.text.split("\n")[0]
    assert shortened.kept == 20


def test_a_key_that_stands_twice_is_not_dropped() -> None:
    text = '{"a": 1, "a": 2, "b": "' + "word " * 300 + '"}'
    assert json_shortener.shorten(text, 400) is None
    assert '"a": 1, "a": 2' in shorten(text, 400).text


def test_all_keys_of_two_levels_stay() -> None:
    value = {f"part{n}": {f"key{n}{m}": "long text " * 40 for m in range(3)} for n in range(6)}
    shortened = shorten(json.dumps(value), 1200)
    for n in range(6):
        for m in range(3):
            assert f'"key{n}{m}":' in shortened.text


def test_errors_outliers_and_rare_values_stand() -> None:
    items = [
        {"id": n, "state": "ok", "took": 10 + n % 7, "text": f"step {n} done"} for n in range(200)
    ]
    items[77]["state"] = "gone"
    items[101]["text"] = "step 101 failed: disk full"
    items[150]["took"] = 90_210
    body = shorten(json.dumps(items), 1500).text
    for row in (77, 101, 150):
        assert re.search(rf"^{row},", body, re.MULTILINE), row


def test_ids_of_the_rows_left_out_are_listed() -> None:
    shortened = shorten(json.dumps(rows(200)), 1500)
    (line,) = [line for line in shortened.text.split("\n") if line.startswith("[id of ")]
    shown = {int(match[1]) for match in re.finditer(r"^(\d+),user", shortened.text, re.MULTILINE)}
    listed = {
        n
        for part in re.findall(r"\d+(?:-\d+)?", line.partition(": ")[2])
        for n in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
    }
    assert line.startswith(f"[id of {200 - len(shown)} others: ")
    assert not shown & listed
    if not line.endswith("…]"):
        assert shown | listed == set(range(200))


def test_what_all_records_share_is_said_once() -> None:
    shortened = shorten(json.dumps(rows(50, kind="issue", labels=[])), 2500)
    assert "every one of the items: kind=issue,labels=[]" in shortened.text
    assert shortened.text.count("issue") == 1


def test_an_array_deep_inside_is_found() -> None:
    value = {"data": {"search": {"count": 3, "nodes": rows(100)}}, "errors": []}
    shortened = shorten(json.dumps(value), 1500)
    assert shortened.kept + shortened.dropped == 100
    assert (
        '{"data":{"search":{"count":3,"nodes":"[100 items below]"}},"errors":[]}' in shortened.text
    )


def test_an_object_that_is_used_like_an_array() -> None:
    value = {f"node_modules/p{n}": {"version": f"1.{n}.0", "dev": n % 2 == 0} for n in range(60)}
    shorter = lossless(json.dumps(value, indent=2))
    assert shorter is not None
    assert (shorter.kept, shorter.unit) == (60, "entries")
    assert "node_modules/p7,1.7.0,false" in shorter.text.split("\n")


def test_entries_keep_their_keys() -> None:
    value: dict[str, Any] = {f"message.{n}": f"text {n}" for n in range(150)}
    value["message.0"] = "word " * 900
    shortened = shorten(json.dumps(value), 2000)
    assert shortened.unit == "entries"
    assert shortened.kept + shortened.dropped == 150
    lines = shortened.text.split("\n")
    assert ", 1 more cut" in lines[0]
    assert lines[1].startswith('"message.0":"word word')
    assert '"message.149":"text 149"' in lines
    assert lines[-1].startswith(f"[key of {149 - shortened.kept} others: message.")


def test_records_in_arrays_are_rows_under_their_place() -> None:
    legs = [
        [{"flight": f"H{n}{m}", "from": "SFO", "price": n * m} for m in range(2)] for n in range(9)
    ]
    shorter = lossless(json.dumps(legs))
    assert shorter is not None
    assert (shorter.kept, shorter.unit) == (18, "rows")
    assert '"3.1",H31,3' in shorter.text.split("\n")


@pytest.mark.parametrize("end", ["\n", "", " \n\n"])
def test_one_document_a_line_and_one_after_another(end: str) -> None:
    items = rows(40)
    for between in ("\n", "", "\n\n"):
        text = between.join(map(json.dumps, items)) + end
        shorter = lossless(text)
        assert shorter is not None
        assert shorter.kept == 40
        assert shorter.text.split("\n")[2] == "0,user 0,u0@example.org"


def test_lines_of_a_tool_around_its_json_stay() -> None:
    text = f"exit code 0\nOutput:\n{json.dumps(rows(60), indent=2)}\n(60 rows)\n"
    shorter = lossless(text)
    assert shorter is not None
    lines = shorter.text.split("\n")
    assert lines[1:3] == ["exit code 0", "Output:"]
    assert lines[-1] == "(60 rows)"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "[" * 300 + "]" * 300 + " " * 1000,
        '["\\ud800 lone", ' + '"x", ' * 400 + '"y"]',
        '[{"a": 1}, {"a": 2}, ' + '{"a": 3}, ' * 200,  # cut off
        "[INFO] started\n" * 100,
        "[1] first footnote\n" * 100,
        "{" + "x" * 1000,
        '{"n": ' + "9" * 5000 + "}",
        "[" + "1e999999, " * 200 + "-1e-999999]",
    ],
)
def test_nothing_raises(text: str) -> None:
    shortened = shorten(text, 300)
    assert len(shortened.text) <= 300
    lossless(text)


def test_data_within_is_told() -> None:
    data = "iVBORw0KGgo" + "AbCdEfGh01234567+/ijKLmnOPqrSTuvWXyz89" * 100
    shortened = shorten(json.dumps({"name": "logo", "image": data}), 1000)
    assert "image/png, " in shortened.text
    assert '"name":"logo"' in shortened.text
