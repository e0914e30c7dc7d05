"""What of source code still stands when it was shortened?"""

from __future__ import annotations

import re
from itertools import count

import pytest

from kvagent.shorten import code, shorten
from kvagent.shorten.numbering import without_numbers
from kvagent.shorten.result import Shortened


def python(functions: int = 60) -> list[str]:
    lines = ["import os", "from app.store import Store, open_store", "", "LIMIT = 4711", ""]
    for number in range(functions):
        lines += [
            f"def handle_part_{number}(request, store: Store) -> int:",
            f'    """Handles the requests of kind {number}."""',
            f"    total = store.count_of(request.kind_{number})",
            "    for item in request.items:",
            "        total += item.size",
            "        if total > LIMIT:",
            f'            raise TooLarge("part {number}")',
            "    return total",
            "",
        ]
    lines.insert(200, "# TODO: handle what comes in twice")
    return lines


TYPESCRIPT = """\
import { readFile } from 'node:fs/promises';
import type { Options } from './options.js';

export interface Session {
  id: string;
}

export class SessionStore extends Base {
  private readonly folder: string;

  constructor(folder: string) {
    super();
    this.folder = folder;
  }

  async load(id: string): Promise<Session | null> {
    if (!id) {
      throw new Error('no id');
    }
    return JSON.parse(await readFile(this.pathOf(id), 'utf8'));
  }

  private pathOf(id: string): string {
    return `${this.folder}/${id}.json`;
  }
}

export const byAge = (a: Session, b: Session): number => a.age - b.age;
function helper(options: Options) {
  while (options.next()) {
    step();
  }
}
"""


def shortened(text: str, budget: int = 3000, source: str | None = "read a.py") -> Shortened:
    result = code.shorten(text, budget, handle="r1", source=source)
    assert result is not None
    assert len(result.text) <= budget
    return result


def numbered(lines: list[str]) -> str:
    return "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(lines, 1))


class TestRecognised:
    def test_by_the_name_of_the_file(self) -> None:
        assert code.shorten("\n".join(python()), 500, source="Read /app/a.py") is not None

    def test_by_its_looks(self) -> None:
        assert code.shorten("\n".join(python()), 500) is not None
        assert code.shorten(TYPESCRIPT, 500, source="bash cat it") is not None

    def test_by_the_numbers_of_its_lines(self) -> None:
        assert code.shorten(numbered(python()), 500) is not None

    @pytest.mark.parametrize(
        "text",
        [
            "All is well. It is said that the code of a.py is good, and so it is\n" * 50,
            "".join(f"tests/test_{i}.py::test_it PASSED\n" for i in range(90)),
            "\n".join(f"2026-01-02 10:00:{i % 60:02d} INFO took part {i} in" for i in range(90)),
            "var a=1;" * 2000,
        ],
    )
    def test_nothing_else_although_the_call_names_a_file(self, text: str) -> None:
        assert code.shorten(text, 500, source="bash pytest a.py") is None


class TestLineNumbers:
    def test_each_line_bears_its_own(self) -> None:
        lines = python()
        for line in shortened("\n".join(lines)).text.split("\n")[1:-1]:
            number, _, content = line.partition(":")
            assert lines[int(number) - 1] == content

    def test_those_that_it_has_already_are_kept_without_what_fills_them_up(self) -> None:
        lines = python()
        for line in shortened(numbered(lines), source=None).text.split("\n")[1:-1]:
            number, _, content = line.partition("\t")
            assert lines[int(number) - 1] == content

    def test_they_go_up(self) -> None:
        shown = shortened("\n".join(python())).text
        numbers = [int(number) for number in re.findall(r"^(\d+):", shown, re.MULTILINE)]
        assert numbers == sorted(set(numbers))

    def test_numbers_are_no_identifiers(self) -> None:
        """Line 1200 names nothing."""
        lines = [f"    value_{i % 50} = {i % 7}" for i in range(3000)]
        text = "def f():\n" + "\n".join(lines)
        footer = shortened(text).text.split("\n")[-1]
        assert not re.search(r"\b\d{4}\b", footer)

    @pytest.mark.parametrize("separator", ["→", "\t", ": ", ":", "| "])
    def test_ways_in_which_tools_print_them(self, separator: str) -> None:
        lines = python(3)
        text = "".join(
            f"{i:5d}{separator}{line}\n" for i, line in zip(count(1), lines, strict=False)
        )
        bare = without_numbers(text)
        assert bare is not None
        assert [line.strip() for line in bare.splitlines()] == [line.strip() for line in lines]

    def test_a_table_of_numbers_has_none(self) -> None:
        assert without_numbers("12,3\n4.5\n17 apples\n" * 20) is None


class TestOutline:
    def test_what_is_defined_comes_outermost_first(self) -> None:
        lines = TYPESCRIPT.split("\n")
        found = [lines[index].strip() for index in code.outline(lines)]
        assert found == [
            "export interface Session {",
            "export class SessionStore extends Base {",
            "export const byAge = (a: Session, b: Session): number => a.age - b.age;",
            "function helper(options: Options) {",
            "constructor(folder: string) {",
            "async load(id: string): Promise<Session | null> {",
            "private pathOf(id: string): string {",
        ]

    @pytest.mark.parametrize(
        "line",
        [
            "def f(x):",
            "    async def f(self):",
            "class A(B):",
            "func (s *Store) Load(id string) error {",
            "pub(crate) fn load(&self) -> Result<()> {",
            "public static void main(String[] args) {",
            "static int match_all(ast_t* ast, pass_opt_t* opt)",
            "fun load(id: String): Session? {",
            "impl Store for Memory {",
            "impl<T> Store for Memory<T> {",
            "  fun ref apply(env: Env) =>",
            "export default function App() {",
            "module Store",
            "CREATE TABLE users (",
        ],
    )
    def test_definitions_of_many_languages(self, line: str) -> None:
        assert code.outline([line]) == [0]

    @pytest.mark.parametrize(
        "line",
        ["    return f(x)", "  if (a) {", "  while (b) {", "} catch (error) {", "  f(x);", "x = 1"],
    )
    def test_nothing_else(self, line: str) -> None:
        assert code.outline([line]) == []

    def test_signatures_imports_and_what_is_left_to_do(self) -> None:
        shown = shortened("\n".join(python(12)), 2500).text
        assert "2:from app.store import Store, open_store" in shown
        assert "# TODO: handle what comes in twice" in shortened("\n".join(python()), 4000).text
        assert sum(f"def handle_part_{i}(" in shown for i in range(12)) >= 6

    def test_code_that_cannot_be_parsed(self) -> None:
        broken = "\n".join(python()).replace("):", ")", 5) + "\n  def (((\n"
        assert shortened(broken).kept > 20


class TestCounts:
    def test_kept_are_the_lines_shown(self) -> None:
        lines = python()
        result = shortened("\n".join(lines) + "\n")
        shown = re.findall(r"^\d+:", result.text, re.MULTILINE)
        assert (result.kept, result.kept + result.dropped) == (len(shown), len(lines))
        assert result.unit == "lines"
        assert not result.lossless

    def test_what_fits_stays_whole(self) -> None:
        text = "\n".join(python(12))
        assert shorten(text, len(text), source="read a.py").text == text
