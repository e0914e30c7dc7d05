"""What does a narrative look like that nothing is wrong with?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.chat import text_of
from kvagent.compaction import SummaryReply
from kvagent.compaction import narrative as form
from kvagent.compaction.narrative import last_request


def asked(request: Mapping[str, Any]) -> str:
    """What the user had asked last, before the instruction."""
    messages = [*request["messages"]]
    before = text_of(messages[-1]).partition(form.INSTRUCTION)[0].strip()
    messages[-1] = {**messages[-1], "content": before}
    return last_request(messages)


def sections(request: Mapping[str, Any]) -> dict[int, list[str]]:
    """The sections of a good narrative; tests spoil them."""
    quoted = asked(request).replace('"', "'").replace("\n", " ")
    return {
        form.CURRENT: [
            f'- The user had asked: "{quoted}"',
            "- The work stopped behind the last test.",
        ],
        form.DONE: ["- The assistant had changed what was asked for, and the tests passed."],
        form.PENDING: ["None"],
        form.DECIDED: [
            "- The smaller of two changes was chosen, because the larger one was not needed."
        ],
        form.FAILED: ["None"],
        form.FOUND: ["- The cause lay in the parser, which dropped the last line of each file."],
        form.NEXT: ["- The remaining module was to be looked at, as the user had asked."],
        form.UNKNOWN: ["- It was not known whether the documentation had been read by anybody."],
    }


def good(request: Mapping[str, Any]) -> SummaryReply:
    """A summarizer without fault."""
    return SummaryReply(form.written(sections(request)))
