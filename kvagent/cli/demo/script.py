"""What does the demo's agent do, turn by turn?

The calls are fixed, so that every run does the same; the words between them are the model's own. A model of 135M parameters
cannot be relied upon to make a valid call, so the script adds the call to its reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYSTEM = (
    "You are a careful coding agent. You look at a repository through tools and answer in one or two short sentences. "
    "Read before you judge, name the files that you speak of, and never guess. Lines that begin with a path and a number "
    "are search hits. The user knows Python well and wants facts, not praise."
)


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
        """Two words for a table: the tool called, or that the turn is the answer."""
        if not self.calls:
            return "answer"
        return self.calls[0].tool if len(self.calls) == 1 else f"{len(self.calls)} calls"


def opening(package: str) -> tuple[str, Call, str]:
    """How the resumed session began: the user's words, the call that was made without a word, and the answer."""
    return (
        "Look around this repository first.",
        Call("list_files", {"folder": package, "limit": 10}),
        "It is a Python package with one folder for each of its parts.",
    )


def steps(root: Path) -> list[Step]:
    """The fourteen turns in the repository at ``root``. One result is over 20,000 characters long."""
    package = "kvagent" if (root / "kvagent").is_dir() else "."
    demo = f"{package}/cli/demo"
    # Prose first: it has the most characters a token, and the result must fit in a small window. The cost of the turns
    # after it is why it comes late: without kvagent the server prefills all of it again each time.
    long_read = f"LICENSE README.md {package}/*.py {package}/*/*.py"
    return [
        Step(
            "What is the file tools.py for?",
            (Call("read_file", {"path": f"{demo}/tools.py", "first": 1, "last": 5}),),
        ),
        Step(),
        Step(
            "Which tools does the demo's agent have?",
            (Call("grep", {"pattern": r"^    def [a-z]", "folder": demo, "limit": 6}),),
        ),
        Step(calls=(Call("read_file", {"path": f"{demo}/tools.py", "first": 15, "last": 22}),)),
        Step(),
        Step(
            "What changed lately, and how is the server started?",
            (
                Call("git_log", {"limit": 4}),
                Call("grep", {"pattern": "Popen", "folder": demo, "limit": 3}),
            ),
        ),
        Step(calls=(Call("read_file", {"path": f"{demo}/server.py", "first": 1, "last": 8}),)),
        Step(),
        Step(
            "Is there anything left to do in it?",
            (Call("grep", {"pattern": "# TODO|# FIXME", "folder": demo, "limit": 5}),),
        ),
        Step(calls=(Call("list_files", {"folder": demo, "limit": 8}),)),
        Step(),
        Step(
            "Now read the licence, the README and the code.",
            (Call("read_file", {"path": long_read}),),
        ),
        Step(calls=(Call("git_log", {"limit": 1}),)),
        Step(),
    ]
