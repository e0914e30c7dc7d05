"""What of the messages that leave the prompt stands nowhere else?

Their lines that name most, as many as there is room for, each text under the call that it answers,
and then the names that the other lines hold. All of it is what others said: a quotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kvagent.clearing.passages import texts_at
from kvagent.clearing.room import Candidate, divide
from kvagent.clearing.superseded import Answered, answered
from kvagent.shorten import source_of

_LONGEST_CALL = 80
_LABEL_TOKENS = 15


def gist(
    messages: Sequence[Mapping[str, Any]],
    standing: Iterable[str],
    *,
    room: int,
    count_tokens: Callable[[str], int],
) -> str:
    """At most about ``room`` tokens of the tool results among ``messages``; "" for nothing.

    ``standing`` are the texts of the prompt that stay: what they name is not told again.
    """
    answers = answered(messages)
    labels: list[str] = []
    candidates: list[Candidate] = []
    for position, message in enumerate(messages):
        if message["role"] != "tool":
            continue
        for _, text in texts_at(message):
            if text.strip():
                labels.append(_label(answers.get(position)))
                rate = count_tokens(text) / len(text)
                candidates.append(Candidate(text, rate, opening=_LABEL_TOKENS))
    divide(candidates, standing, room, ends=False)
    parts: list[str] = []
    names: list[str] = []
    for label, candidate in zip(labels, candidates, strict=True):
        if candidate.whole:
            parts += [label, candidate.text]
        elif candidate.selection.kept():
            parts += [label, candidate.selection.standing()]
        if not candidate.whole:
            names += candidate.names
    if names:
        parts += ["Also named: " + ", ".join(names)]
    return "\n".join(parts)


def _label(call: Answered | None) -> str:
    if call is None:
        return "A tool:"
    said = source_of(call.tool, call.arguments) or "A tool"
    return f"{' '.join(said.split())[:_LONGEST_CALL]}:"
