"""What do a session's figures leave out?

A report that does not say so is believed too much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvagent.audit.figures import several
from kvagent.audit.session import Session
from kvagent.audit.turns import Turn

_PARTS: Mapping[frozenset[str], str] = {
    frozenset({"system"}): "the tools",
    frozenset({"tools"}): "the system prompt",
    frozenset(): "the system prompt and the tools",
}
"""What a transcript lacks, by what it has."""

# Different reasons for estimates that are told.
_FAULTS = 3


class Seen:
    """What it takes to tell, counted while the requests pass."""

    def __init__(self) -> None:
        self.lacking: Counter[frozenset[str]] = Counter()
        self.unrolled = 0
        self.pictures = 0
        """Messages with parts that are no text, each once."""
        self.estimated = 0
        """Requests whose tokens are estimates although a model was given."""
        self.faults: dict[str, int] = {}
        self.refused = 0
        """Requests that the chosen server takes no prompt of, because they are too long."""

    def turn(self, turn: Turn) -> None:
        """The next request."""
        request = turn.request
        if request.complete in _PARTS:
            self.lacking[request.complete] += 1
        self.unrolled += request.unrolled
        self.refused += turn.predicted_tokens is None
        if turn.fault:
            self.estimated += 1
            if turn.fault in self.faults or len(self.faults) < _FAULTS:
                self.faults[turn.fault] = self.faults.get(turn.fault, 0) + 1
        for number in turn.fresh:
            self.pictures += _has_others(request.messages[number])


def notes(session: Session, seen: Seen) -> list[str]:
    """What the session's figures leave out, a sentence or two each; the weightiest first."""
    told = list(_unreadable(session))
    if session.traced:
        return [*told, _traced(session), *_refused(_unfit(session))]
    told += _refused(seen.refused)
    told += _heads(session, seen)
    told += _rebuilt(seen)
    told += _tokens(session, seen)
    told += _reported(session)
    told += _cache(session)
    return told


def _unreadable(session: Session) -> Iterable[str]:
    ends = [each.place for each in session.unreadable if each.is_end]
    if count := session.unreadable_count - len(ends):
        line = session.unreadable[0].place.line
        first = "it is" if count == 1 else "the first is"
        where = "" if line is None else f"; {first} line {line:,}"
        yield (
            f"{several(count, 'entry', 'entries')} could not be read and {_are(count)} left out"
            f"{where}."
        )
    for place in ends:
        where = "" if place.line is None else f" at line {place.line:,}"
        yield f"The file breaks off{where}: what came after is missing."


def _traced(session: Session) -> str:
    return (
        f"This trace holds hashes of {session.traced[0].request.block_size}-token blocks and no "
        "texts: it shows what could have been cached, and not why the rest could not."
    )


def _heads(session: Session, seen: Seen) -> Iterable[str]:
    for has, count in sorted(seen.lacking.items(), key=lambda item: (-item[1], sorted(item[0]))):
        where = (
            "" if count == session.requests else f" in {count:,} of {session.requests:,} requests"
        )
        yield (
            f"The transcript lacks {_PARTS[has]}{where}: the prompts were longer than they seem "
            "here, and changes there do not show."
        )


def _tokens(session: Session, seen: Seen) -> Iterable[str]:
    if not session.rows:
        return
    if not seen.estimated and not session.exact:
        yield (
            "Tokens are estimates, a tenth to a third off for any one model (the hit rate far less), "
            "and what its chat template does to the prefix does not show: with --tokenizer, both "
            "are exact."
        )
    for fault, count in seen.faults.items():
        yield f"The tokens of {several(count, 'request')} are estimates: {fault.rstrip('.')}."
    if rest := seen.estimated - sum(seen.faults.values()):
        yield f"So are those of {rest:,} more, for other reasons."
    if count := seen.pictures:
        yield (
            f"{several(count, 'message')} {'has' if count == 1 else 'have'} pictures or other parts "
            "that are no text: each counts as about a thousand tokens, whatever its size."
        )


def _rebuilt(seen: Seen) -> Iterable[str]:
    if seen.unrolled:
        yield (
            "The requests are rebuilt from a list of messages: what the agent added to them, or "
            "changed in old messages, does not show."
        )


def _reported(session: Session) -> Iterable[str]:
    reported = session.totals.reported_requests
    if 0 < reported < session.requests:
        yield (
            f"{reported:,} of {session.requests:,} requests report their cached tokens: the "
            "reported hit rate is theirs."
        )


def _cache(session: Session) -> Iterable[str]:
    if session.conversations > 1:
        yield (
            "The prediction takes the requests one after the other, as if each had been answered "
            "before the next one came."
        )
    if session.requests > session.conversations:
        yield (
            "The prediction counts prompts only: what the server keeps of its own answers may come "
            "on top."
        )


def _refused(count: int) -> Iterable[str]:
    if count:
        yield (
            f"{several(count, 'prompt')} {'does' if count == 1 else 'do'} not fit the window or the "
            f"cache of the chosen server and {_are(count)} left out of its hit rate."
        )


def _unfit(session: Session) -> int:
    return sum(each.predicted_tokens is None and each.prompt_tokens > 0 for each in session.traced)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _has_others(message: Mapping[str, Any]) -> bool:
    """Whether it has parts that no tokenizer of texts counts."""
    content = message.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return False
    return any(
        isinstance(part, Mapping) and not isinstance(part.get("text"), str) for part in content
    )
