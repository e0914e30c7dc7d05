"""What does the demo's agent do, turn by turn?

The calls are fixed, so that every run does the same; the words between them are the model's own. A model of 135M
parameters cannot be relied upon to make a valid call, so the script adds the call to its reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYSTEM = "You are a careful coding agent. Use the tools, answer in one short sentence, name files, never guess."


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call: the tool's name and its arguments."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: what the user says before it (or nothing) and the calls that follow the reply (or none)."""

    user: str | None = None
    calls: tuple[Call, ...] = ()

    @property
    def label(self) -> str:
        """A word or two for a table: the tool called, or that the turn is the answer."""
        if not self.calls:
            return "answer"
        return self.calls[0].tool if len(self.calls) == 1 else f"{len(self.calls)} calls"


def opening(root: Path) -> tuple[str, Call, str]:
    """How the resumed session began: the user's words, a call that was made without a word, and the answer."""
    return (
        "Look around this repository first.",
        Call("list_files", {"folder": _package(root)}),
        "It is a Python package with one folder for each of its parts.",
    )


def steps(root: Path) -> list[Step]:
    """The twelve turns in the repository at ``root``. One result is over 20,000 characters long."""
    package = _package(root)
    demo = f"{package}/cli/demo"
    tools, server = f"{demo}/tools.py", f"{demo}/server.py"
    # The long result comes last, because without kvagent the server computes all of it again in each turn after it;
    # rulers have few tokens for their characters, so that it fits in a small window and takes little time.
    everything = {"path": f"{package}/**/*.py", "last": 5}
    return [
        Step("What is the file tools.py for?", (_read(tools, 1, 4),)),
        Step(),
        Step("Which classes are there beside it?", (_grep("^class ", demo),)),
        Step(calls=(_read(tools, 15, 17),)),
        Step(),
        Step(
            "What changed lately, and how is the server started?",
            (Call("git_log", {"limit": 2}), _grep("Popen.$", demo)),
        ),
        Step(calls=(_read(server, 1, 4),)),
        Step(),
        Step("Is there anything left to do in it?", (_grep("# TODO|# FIXME", demo),)),
        Step(),
        Step("Now read how each module begins.", (Call("read_file", everything),)),
        Step(),
    ]


def _package(root: Path) -> str:
    return "kvagent" if (root / "kvagent").is_dir() else "."


def _read(path: str, first: int, last: int) -> Call:
    return Call("read_file", {"path": path, "first": first, "last": last})


def _grep(pattern: str, folder: str) -> Call:
    return Call("grep", {"pattern": pattern, "folder": folder})
