"""What would kvagent have sent for a recorded request?

One engine without a server takes each request for answered before the next one comes. Whatever a
request holds, an answer is given: what kvagent would let through comes back as it came.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvagent.chat import Doubt
from kvagent.engine import Engine
from kvagent.events import Bypassed, Event, TurnFinished
from kvagent.policy import Policy
from kvagent.stores import Store
from kvagent.summaries import Summarize

logger = logging.getLogger("kvagent")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A request as it would have gone out."""

    body: bytes
    events: Sequence[Event]
    """What was done; nothing of answers, for there were none."""
    let_through: str = ""
    """Why it goes out as it came, without text of the prompt; empty where kvagent took it on."""
    error: Exception | None = None
    """What was raised inside kvagent, if that is why."""


class Offline:
    """The engine, as it runs on recordings.

    ``ValueError`` for a policy that names a file which cannot be read. ``store`` is as for Engine.
    """

    def __init__(
        self, policy: Policy, *, summarizer: Summarize | None = None, store: Store | None = None
    ) -> None:
        # There is no server to ask, and in the foreground the same recording gives the same bytes.
        alone: dict[str, object] = {"probe": False}
        if policy.compact is not None:
            alone["compact"] = policy.compact.model_copy(update={"background": False})
        self._events: list[Event] = []
        self.engine = Engine(
            policy.model_copy(update=alone),
            store=store,
            on_event=self._note,
            summarizer=summarizer,
        )

    def _note(self, event: Event) -> None:
        if not isinstance(event, TurnFinished):
            self._events.append(event)

    def rewrite(self, body: bytes) -> Rewritten:
        """The next request, in the order in which they were sent."""
        self._events = []
        try:
            return Rewritten(self.engine.rewrite(body), self._events)
        except Doubt as doubt:
            return Rewritten(body, [Bypassed(str(doubt))], str(doubt))
        except Exception as error:
            logger.debug("kvagent failed on a recorded request", exc_info=True)
            event = Bypassed("an error inside kvagent", error)
            return Rewritten(body, [event], f"an error inside kvagent, {place(error)}", error)


def place(error: BaseException) -> str:
    """An error's kind and where it was raised; its own text may quote the prompt."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return type(error).__name__ + where
