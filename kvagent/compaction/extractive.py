"""What does a narrative say that no model wrote?

Sentences of the assistant's, quoted, picked by rules: what it concluded, why it decided, what did not
work. It is checked as a model's answer is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvagent.chat import text_of
from kvagent.compaction import narrative as form
from kvagent.compaction.delimiters import without_records
from kvagent.compaction.escape import escaped
from kvagent.compaction.facts import Facts, facts_of
from kvagent.compaction.sentences import sentences_of
from kvagent.compaction.summary import SummaryReply

_DECIDED = re.compile(
    r"\b(?:because|since|therefore|so that|decided|instead|rather than|chose|the reason|due to|better to)\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|did ?n[o']t work|does ?n[o']t work|broke|broken|error|wrong|cannot|can't"
    r"|unable|not found|timed out|regression|crash(?:es|ed)?)\b",
    re.IGNORECASE,
)
_FOUND = re.compile(
    r"\b(?:found|found out|turns out|root cause|the (?:issue|problem|bug|cause) (?:is|was)|confirmed|discovered"
    r"|shows? that|is (?:defined|located|set|handled) in|returns|expects|uses)\b",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\b(?:next|now|let me|let's|i'll|i will|going to|remaining|then i)\b", re.IGNORECASE
)
_TELLING = re.compile(r"[\w-]+[/._][\w/.-]+|\d{2,}|[a-z][A-Z]|`")
_FINISHED = re.compile(r"\b(?:done|completed?|finished)\b", re.IGNORECASE)
_MOST = 6  # sentences in a section
_LONGEST = 300  # characters of a quotation


def extractive(request: Mapping[str, Any]) -> SummaryReply:
    """The summarizer that needs no model: a narrative of what the request's messages hold."""
    messages = _without_instruction(request["messages"])
    return SummaryReply(form.written(_sections(messages, facts_of(messages))))


def _without_instruction(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    kept = list(messages)
    if kept and kept[-1].get("role") == "user":
        before = text_of(kept[-1]).partition(form.INSTRUCTION)[0].rstrip()
        if before:
            kept[-1] = {**kept[-1], "content": before}
        else:
            kept.pop()
    return [
        {**message, "content": without_records(text_of(message))}
        if message.get("role") == "user"
        else message
        for message in kept
    ]


def _sections(messages: Sequence[Mapping[str, Any]], facts: Facts) -> dict[int, list[str]]:
    spoken = [
        sentence
        for message in messages
        if message.get("role") == "assistant"
        for sentence in sentences_of(escaped(text_of(message)))
        if len(sentence) > 20 and "\n" not in sentence and not sentence.endswith((":", "|"))
    ]
    request = form.last_request(messages)
    current = (
        [f"- The user had asked: {_quoted(request)}"]
        if request
        else ["- The user had asked nothing."]
    )
    if spoken:
        current.append(f"- The assistant had last said: {_quoted(spoken[-1])}")
    plan = [(bool(_FINISHED.search(state)), step) for state, step in facts.plan]
    done = [f"- Of the plan: {_quoted(step)}" for finished, step in plan if finished]
    done += [
        f"- {_quoted(command.line)} succeeded."
        for command in facts.commands[-_MOST:]
        if not command.failed
    ]
    failed = [
        f"- {_quoted(problem.target)} failed; the tool said {_quoted(' / '.join(problem.said))}"
        for problem in facts.problems[-_MOST:]
    ]
    return {
        form.CURRENT: current,
        form.DONE: done,
        form.PENDING: [
            f"- Of the plan: {_quoted(step)}" for finished, step in plan if not finished
        ],
        form.DECIDED: _said(spoken, _DECIDED),
        form.FAILED: [*failed, *_said(spoken, _FAILED)],
        form.FOUND: _said(spoken, _FOUND),
        form.NEXT: _said([one for one in spoken[-4:] if _NEXT.search(one)][-1:], _NEXT),
        form.UNKNOWN: [],
    }


def _said(sentences: Sequence[str], about: re.Pattern[str]) -> list[str]:
    """The sentences that are about something, those that name most for their length, in order."""
    candidates = [
        (len(_TELLING.findall(sentence)) / (40 + len(sentence)), number, sentence)
        for number, sentence in enumerate(dict.fromkeys(sentences))
        if about.search(sentence)
    ]
    best = sorted(candidates, reverse=True)[:_MOST]
    ordered: Iterable[str] = (sentence for _, _, sentence in sorted(best, key=lambda one: one[1]))
    return [f"- The assistant had said: {_quoted(sentence)}" for sentence in ordered]


def _quoted(text: str) -> str:
    text = " ".join(text.split()).replace('"', "'").replace("“", "'").replace("”", "'")
    return f'"{text}"' if len(text) <= _LONGEST else f'"{text[: _LONGEST - 1]}…"'
