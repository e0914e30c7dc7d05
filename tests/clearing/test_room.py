"""Do the lines stand that say most of what stands nowhere else?"""

from __future__ import annotations

from kvagent.clearing.room import Candidate, divide
from tests.clearing.prompts import count

FILLER = "and so it went on for a while as it had gone on before"


def text(*telling: str, filler: int = 30) -> str:
    lines = [FILLER] * filler
    return "\n".join([*lines, *telling, *lines])


def read(*texts: str, room: float, standing: tuple[str, ...] = (), ends: bool = True) -> list[str]:
    candidates = [Candidate(each, 0.25) for each in texts]
    divide(candidates, standing, room, ends=ends)
    return [candidate.reads("r1") for candidate in candidates]


def test_the_line_with_a_name_stands() -> None:
    (short,) = read(text("found parse_config in src/core/loader.py"), room=60)
    assert "found parse_config in src/core/loader.py" in short.split("\n")
    assert short.startswith("[kvagent: ")
    assert "kept as r1]" in short


def test_both_ends_stand_first() -> None:
    (short,) = read("begin it here\n" + log_of(300) + "\nexit status 0", room=60)
    lines = short.split("\n")
    assert "begin it here" in lines
    assert "exit status 0" in lines


def log_of(lines: int) -> str:
    return "\n".join(f"saw name_{n} in path/to/file_{n}.py" for n in range(lines))


def test_what_stands_elsewhere_takes_no_room() -> None:
    known = "render_page calls build_index"
    first, second = read(text(known), text("other_name calls third_name"), room=40,
                         standing=(known,), ends=False)  # fmt: skip
    assert known not in first
    assert "other_name calls third_name" in second


def test_of_two_texts_with_the_same_the_later_one_keeps_it() -> None:
    line = "render_page calls build_index"
    first, second = read(text(line), text(line), room=30, ends=False)
    assert line not in first
    assert line in second


def test_names_of_lines_left_out_are_listed() -> None:
    (short,) = read(log_of(300), room=300)
    lines = short.split("\n")
    assert lines[-1].startswith("[among the rest: ")
    listed = set(lines[-1][len("[among the rest: ") : -1].split(", "))
    assert len(listed) > 10
    assert all(name in log_of(300) for name in listed)
    assert not any(name in line.split() for line in lines[1:-1] for name in listed)


def test_the_room_is_shared_by_worth() -> None:
    dull, telling = read("\n".join([FILLER] * 200), log_of(200), room=400)
    assert count(dull) < 60
    assert count(telling) > 200


def test_no_room_leaves_only_markers() -> None:
    for short in read(log_of(30), text("some_name"), room=0):
        assert short.count("\n") == 0
        assert short.startswith("[kvagent: 0 of ")


def test_more_room_than_needed_keeps_all() -> None:
    assert read(log_of(20), text("some_name"), room=1e9) == [log_of(20), text("some_name")]


def test_texts_without_words_are_no_trouble() -> None:
    read("", "\n", "\x1b[0m", log_of(3), room=0)
    read("", "\n", "\x1b[0m", log_of(3), room=1e9)


def test_an_opening_is_paid_once() -> None:
    candidate = Candidate(log_of(3), 0.25, opening=100.0)
    first = candidate.cost(0)
    divide([candidate], (), 2 * first)
    assert first > 100 > candidate.cost(2)
