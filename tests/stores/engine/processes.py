"""What is a new process to a conversation? An engine on the file that another left."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvagent import Engine, Event, Policy
from tests.strategies import Step
from tests.wire import Message, Wire, say


@contextmanager
def new_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "ledger.sqlite3"


def wire(store: Path | None, **fields: Any) -> Wire:
    """A new process, as it were."""
    events: list[Event] = []
    engine = Engine(
        Policy(probe=False, **fields.pop("policy", {})),
        store=store,
        on_event=events.append,
        **fields,
    )
    new = Wire(engine)
    new.events = events
    return new


def system(text: str) -> Message:
    return say("system", text)


HELLO = say("user", "Hello, what is in the log?")
LONG = "\n".join(f"{n:05} request served in {n % 97} ms by worker {n % 13}" for n in range(2_000))


def turn(number: int) -> Step:
    return Step("turn", what=number, form=number, ticks=True)
