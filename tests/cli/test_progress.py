"""Is there a bar on a terminal, and nothing but what is said elsewhere?"""

from __future__ import annotations

import io

import pytest

from kvagent.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_only_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working", 10) as screen:
        screen.advance(5)
        screen.say("line 3 [is] broken")
    assert capsys.readouterr() == ("", "line 3 [is] broken\n")


@pytest.mark.parametrize("size", [10, None])
def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, size: int | None) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("working", size) as screen:
        screen.advance(5)
        screen.say("line 3 [is] broken")
    assert "working" in terminal.getvalue()
    assert "line 3 [is] broken" in terminal.getvalue()


def test_a_bar_goes_on_behind_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a document all bytes are read before the work begins."""
    from rich.progress import Progress

    monkeypatch.setattr("sys.stderr", Terminal())
    bars: list[Progress] = []
    start = Progress.start

    def started(self: Progress) -> None:
        bars.append(self)
        start(self)

    monkeypatch.setattr(Progress, "start", started)
    with progress("working", 10) as screen:
        screen.advance(10)
        (bar,) = bars
        assert not bar.finished
