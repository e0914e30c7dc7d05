"""What do the messages of a prompt become when it must get smaller by so many tokens?

What is cleared keeps what stands nowhere else, as far as there is room: tool results and what the
agent itself wrote, but for the newest results and the agent's last message. Only what must go for
the prompt to fit may also be the user's, and then the newest; the first and the newest user message
stay as they are in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.chat import shown, text_of
from kvagent.clearing.passages import Place, arguments_at, replaced, texts_at
from kvagent.clearing.room import Candidate, divide
from kvagent.clearing.superseded import REPEAT, SUPERSEDED, answered, superseded
from kvagent.shorten.marker import is_pointer
from kvagent.standing import Standing
from kvagent.volatile import NOTE

# A marker's tokens: what is not much longer is left alone, and an edit must free as many again.
_MARKER_TOKENS = 25
# A text that would keep more than the rest of it stays whole: gaps in it would say less than it did.
_WORTHWHILE = 0.2
# Lines that name much have more tokens a character than their text: then there was less room.
_TRIES = 3
_REASONS = {"tool": "age", "assistant": "assistant_text", "user": "user_text"}
_RESORTS = 3
_A_HANDLE = f'kvagent_recall("r{12 * "0"}")'  # as long as what names an original can be
# What a later result stands for keeps nothing but its marker, which says so.
_NOTES = {REPEAT: "the same stands below", SUPERSEDED: "a newer one stands below"}


@dataclass(frozen=True, slots=True)
class Cleared:
    """A message in the form in which it shall stand from now on."""

    index: int
    """As in ``Standing``."""
    message: Mapping[str, Any]
    tokens: int
    """Estimated tokens of ``message``."""
    reason: str
    """``repeat``, ``superseded``, ``age``, ``assistant_text``, ``arguments`` or ``user_text``."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """A text that may be cleared."""

    position: int
    place: Place
    text: str
    """As the agent sends it."""
    now: str
    """As it stands."""
    rate: float
    """Tokens of a character."""
    reason: str
    note: str
    """What was told the model at its end, beside what the agent sent."""

    @property
    def tokens(self) -> float:
        """What it takes as it stands."""
        return len(self.now) * self.rate


def plan(
    standing: Sequence[Standing],
    *,
    free: int,
    must: int = 0,
    keep: int,
    exclude_tools: Collection[str],
    clear_tool_inputs: bool,
    again: bool = True,
    count_tokens: Callable[[str], int],
    store_original: Callable[[str], str],
) -> list[Cleared]:
    """What to make of which messages, so that at least ``free`` tokens are freed if they can be.

    Args:
        must: so many must be freed, or the request is refused: as long as that is not reached, the
            user's texts, the agent's last message and the newest results are cleared too, in this
            order.
        keep: so many of the newest tool results stay as they are.
        exclude_tools: the results of these tools stay in any case.
        clear_tool_inputs: whether long texts in the arguments of calls may be cleared.
        again: whether what was cleared in a turn before may lose more.
        store_original: keeps a text and gives the handle that brings it back.
    """
    free = max(free, must)
    if free <= 0:
        return []
    passages: list[_Passage] = []
    for last_resort in range(_RESORTS + 1):
        found = _passages(standing, keep, exclude_tools, clear_tool_inputs, last_resort)
        passages = [each for each in found if again or not standing[each.position].cleared]
        if _at_most(passages) >= must:
            break
    forms = _forms(standing, passages, free, count_tokens)
    changed: dict[int, list[_Passage]] = {}
    for passage in forms:
        changed.setdefault(passage.position, []).append(passage)
    cleared: list[Cleared] = []
    for position, parts in changed.items():
        each = standing[position]
        texts = {
            part.place: forms[part].reads(store_original(part.text)) + part.note for part in parts
        }
        freed = sum(part.tokens - count_tokens(texts[part.place]) for part in parts)
        message = replaced(each.sent, texts)
        cleared.append(Cleared(each.index, message, each.tokens - int(freed), parts[0].reason))
    return cleared


def clearable(
    standing: Sequence[Standing],
    *,
    keep: int,
    exclude_tools: Collection[str],
    clear_tool_inputs: bool,
    again: bool = True,
) -> int:
    """How many tokens ``plan`` could free at most, where nothing must be."""
    passages = _passages(standing, keep, exclude_tools, clear_tool_inputs)
    return int(_at_most(p for p in passages if again or not standing[p.position].cleared))


def _passages(
    standing: Sequence[Standing],
    keep: int,
    exclude_tools: Collection[str],
    clear_tool_inputs: bool,
    last_resort: int = 0,
) -> Iterator[_Passage]:
    """Also the user's from the 1st ``last_resort`` on, the last reply's from the 2nd, all results'
    from the 3rd."""
    messages = [each.came for each in standing]
    answers = answered(messages)
    pointing = {n for n, each in enumerate(standing) if is_pointer(text_of(each.sent))}
    replacements = superseded(messages, answers, pointing)
    places: dict[str, list[int]] = {}
    for position, each in enumerate(standing):
        places.setdefault(each.role, []).append(position)
    results, users = places.get("tool", []), places.get("user", [])
    spared = {n for n, call in answers.items() if call.tool in exclude_tools}
    spared |= {*users[:1], *users[-1:]} if last_resort else set(users)
    if last_resort < 2:
        spared |= set(places.get("assistant", [])[-1:])
    if last_resort < 3:
        spared |= set(results[max(0, len(results) - keep) :])
    for position, each in enumerate(standing):
        reason = replacements.get(position) or _REASONS.get(each.role)
        if position in spared or reason is None:
            continue
        yield from _long(position, each, texts_at(each.came), reason)
        if clear_tool_inputs:
            yield from _long(position, each, arguments_at(each.came), "arguments")


def _long(
    position: int, each: Standing, texts: Iterator[tuple[Place, str]], reason: str
) -> Iterator[_Passage]:
    now = dict(_texts(each.sent))
    # All that is shown of a message has about as many tokens a character.
    rate = each.tokens / max(1, len(shown(each.sent)))
    for place, text in texts:
        if place not in now:
            continue
        passage = _Passage(position, place, text, now[place], rate, reason, _note(text, now[place]))
        if passage.tokens > 2 * _MARKER_TOKENS:
            yield passage


def _note(came: str, now: str) -> str:
    at = now.find("\n\n" + NOTE)
    return now[at:] if at >= 0 and NOTE not in came else ""


def _texts(message: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    yield from texts_at(message)
    yield from arguments_at(message)


def _at_most(passages: Iterable[_Passage]) -> float:
    return sum(passage.tokens - _MARKER_TOKENS for passage in passages)


def _forms(
    standing: Sequence[Standing],
    passages: Sequence[_Passage],
    free: int,
    count_tokens: Callable[[str], int],
) -> dict[_Passage, Candidate]:
    """What becomes of the passages that get shorter."""
    places = {(passage.position, passage.place) for passage in passages}
    whole = [
        text
        for position, each in enumerate(standing)
        for place, text in _texts(each.sent)
        if (position, place) not in places
    ]
    candidates = {
        passage: Candidate(passage.text, passage.rate, _NOTES.get(passage.reason))
        for passage in passages
    }
    shared = [c for passage, c in candidates.items() if passage.reason not in _NOTES]
    room = _at_most(passages) - free
    for _ in range(_TRIES):
        divide(shared, whole, max(0.0, room))
        texts = {p: candidate.reads(_A_HANDLE) + p.note for p, candidate in candidates.items()}
        freed = {p: p.tokens - count_tokens(text) for p, text in texts.items()}
        forms = {
            p: candidates[p]
            for p, text in texts.items()
            if freed[p] > max(_MARKER_TOKENS, _WORTHWHILE * p.tokens) and len(text) < len(p.now)
        }
        lacking = free - sum(freed[passage] for passage in forms)
        if lacking <= 0 or room <= 0:
            break
        room -= lacking
    return forms
