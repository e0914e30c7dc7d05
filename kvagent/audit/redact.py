"""What of a report may others read, who must not see the prompts?

Its figures, its places and its rules. Each text of a prompt becomes a stand-in of as many tokens,
made of single letters: ``x`` for what two texts have in common, ``b`` for what stood there before,
``a`` for what stands there after, so that the differing part is where it was. The sentence on a
finding becomes its rule's own. Files keep the names that they were given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from kvagent.audit.rule import Contrast, Finding, Spot
from kvagent.audit.session import Failed, Report, Result, Row, Session, Timeline
from kvagent.audit.transcript import Place
from kvagent.prefixcache.seen import common_prefix

_COMMON, _BEFORE, _AFTER = "x", "b", "a"

# Where a word more is two tokens more, one of these may be one.
_SMALL = (".", ",", "x", "-", "o", " .", " ")

_ROLES = frozenset({"assistant", "developer", "function", "system", "tool", "user"})

_SEGMENT = re.compile(r"\[\d+\]|\.|[^.\[\]]+|[\[\]]")
_WIRE = frozenset(
    re.findall(
        r"\w+",
        """
        allOf answer_generation anyOf arguments array attributes body cache_prompt cache_salt
        call chat_template_kwargs choices content custom data default delta description enum
        events exclusiveMaximum exclusiveMinimum format frequency_penalty function function_call
        functions gen_ai generations guided_json history id id_slot image_url input
        input_messages inputs instructions instrumentationLibraryLogs
        instrumentationLibrarySpans integer interactions items json_schema kwargs log loglines
        logprobs lora max_completion_tokens max_tokens maximum maxItems maxLength message
        messages metadata min_p minimum minItems minLength model n name number object
        observations oneOf output output_messages outputs parallel_tool_calls parameters parts
        pattern payload presence_penalty prompt prompt_cache_key prompts properties query
        reasoning reasoning_content reasoning_effort request requests required resourceLogs
        resourceSpans response response_format role runs samples schema scopeLogs scopeSpans
        seed spans stop store stream stream_options strict string summary system task
        temperature text thinking title tool tool_call_id tool_calls tool_choice tools top_k
        top_p trace train_messages traj trajectory type uri url user value
        """,
    )
)
"""Words of places and fields that are the wire's or a format's, not the user's."""


def redacted(report: Report, count: Callable[[str], int]) -> Report:
    """The report without a text of a prompt, of an answer, of a tool or of an error.

    Args:
        report: stays as it is.
        count: the tokens of a text, by the counter whose figures the report has.
    """
    return _Redaction(count).report(report)


class _Redaction:
    """Of one report: a name is the same stand-in everywhere in it."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._texts: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}

    def report(self, report: Report) -> Report:
        return replace(
            report,
            sessions=[self._session(each) for each in report.sessions],
            failed=[Failed(each.file, _failure(each)) for each in report.failed],
            gates=[
                replace(each, findings=tuple(map(self._finding, each.findings)))
                for each in report.gates
            ],
            redacted=True,
        )

    def _session(self, session: Session) -> Session:
        return replace(
            session,
            rows=[self._row(each) for each in session.rows],
            traced=[
                replace(each, request=replace(each.request, place=self._place(each.request.place)))
                for each in session.traced
            ],
            unreadable=[
                replace(each, place=self._place(each.place), why=_beginning(each.why))
                for each in session.unreadable
            ],
            findings=[self._finding(each) for each in session.findings],
            results=[self._result(each) for each in session.results],
            timelines={number: _timeline(each) for number, each in session.timelines.items()},
            notes=[_without(each, session.rows) for each in session.notes],
        )

    def _row(self, row: Row) -> Row:
        return replace(
            row,
            place=self._place(row.place),
            fault=self._text(row.fault),
            error=None if row.error is None else self._text(row.error),
        )

    def _finding(self, finding: Finding) -> Finding:
        # What a check says of its own may quote names and values.
        rule = finding.rule
        return replace(
            finding,
            said=rule.summary,
            fix=rule.fix,
            example=rule.example,
            about="",
            spots=[self._spot(each) for each in finding.spots],
        )

    def _spot(self, spot: Spot) -> Spot:
        return replace(
            spot,
            place=self._place(spot.place),
            field=self._words(spot.field),
            contrast=None if spot.contrast is None else self._contrast(spot.contrast),
            excerpt=self._text(spot.excerpt),
        )

    def _result(self, result: Result) -> Result:
        tool = self._name("tool", result.tool) if result.tool else ""
        return replace(result, place=self._place(result.place), tool=tool)

    def _place(self, place: Place) -> Place:
        return replace(place, path=self._words(place.path))

    def _words(self, path: str) -> str:
        """A path, with the names that are not the wire's replaced."""
        return "".join(
            part if part in _WIRE or part[0] in ".[]" else self._name("name", part)
            for part in _SEGMENT.findall(path)
        )

    def _name(self, kind: str, text: str) -> str:
        known = sum(1 for other, _ in self._names if other == kind)
        return self._names.setdefault((kind, text), f"{kind}_{known + 1}")

    def _text(self, text: str) -> str:
        made = self._texts.get(text)
        if made is None:
            made = self._texts[text] = stand_in(text, self._count)
        return made

    def _contrast(self, contrast: Contrast) -> Contrast:
        return contrast_stand_in(contrast, self._count)


def stand_in(text: str, count: Callable[[str], int]) -> str:
    """A text of as many tokens that says nothing."""
    return _filled(0, _COMMON, 0, count(text), count) if text else ""


def contrast_stand_in(contrast: Contrast, count: Callable[[str], int]) -> Contrast:
    """Two texts of as many tokens each that begin and end alike where these two do.

    What they have in common may be a little shorter, since a border within a word is none between
    tokens.
    """
    before, after = contrast.before, contrast.after
    if before == after:
        same = stand_in(before, count)
        return Contrast(same, same, len(same))
    at = common_prefix(before, after)
    rests = before[at:], after[at:]
    tail = common_prefix(rests[0][::-1], rests[1][::-1])
    sizes = count(before), count(after)
    # A side with text of its own needs a token for it; the other one has nothing but the common.
    room = max(0, min(s - (len(r) > tail) for s, r in zip(sizes, rests, strict=True)))
    first = _words(min(count(before[:at]), max(0, room - (tail > 0))), count)
    last = _words(room, count) - first
    if min(map(len, rests)) > tail:
        last = min(last, _words(count(after[len(after) - tail :]), count) if tail else 0)
    elif not tail:
        first, last = first + last, 0
    own = [len(rest) > tail for rest in rests]
    while True:
        texts = [
            _filled(first, word, last, size, count)
            for word, size in zip((_BEFORE, _AFTER), sizes, strict=True)
        ]
        # Where a word is more than one token, there may be no room left for what is its own.
        shown = (word in text for word, text in zip((_BEFORE, _AFTER), texts, strict=True))
        if not last or all(
            is_shown or not is_own for is_shown, is_own in zip(shown, own, strict=True)
        ):
            break
        last -= 1
    return Contrast(texts[0], texts[1], common_prefix(texts[0], texts[1]))


def _filled(first: int, word: str, last: int, tokens: int, count: Callable[[str], int]) -> str:
    """So many common words, as many others as make up the tokens, and common ones again."""

    def made(number: int) -> str:
        return " ".join([_COMMON] * first + [word] * number + [_COMMON] * last)

    text = made(_most(made, tokens, count, tokens - first - last))
    while (size := count(text)) < tokens:
        more = (text + small for small in _SMALL)
        longer = next((each for each in more if size < count(each) <= tokens), None)
        if longer is None:
            break
        text = longer
    return text


def _words(tokens: int, count: Callable[[str], int]) -> int:
    """How many common words are at most so many tokens."""
    return _most(lambda number: " ".join([_COMMON] * number), tokens, count, tokens)


def _most(made: Callable[[int], str], tokens: int, count: Callable[[str], int], guess: int) -> int:
    """The largest number of words, up to one a token, whose text is not beyond so many tokens."""
    if guess >= 0 and count(made(guess)) == tokens:
        return guess
    low, high = 0, max(0, tokens)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(made(middle)) <= tokens else (low, middle - 1)
    return low


def _timeline(timeline: Timeline) -> Timeline:
    roles = [role if role in _ROLES else "other" for role in timeline.roles]
    return replace(timeline, roles=roles)


def _without(note: str, rows: Sequence[Row]) -> str:
    """A note, which may tell why tokens are estimates, without what the template said."""
    faults = {row.fault.rstrip(".") for row in rows if row.fault}
    return _beginning(note) if any(fault in note for fault in faults) else note


def _failure(failed: Failed) -> str:
    """Why a file failed, without what it looks like."""
    rest = failed.why.removeprefix(failed.file)
    return failed.why[: len(failed.why) - len(rest)] + _beginning(rest)


def _beginning(why: str) -> str:
    """A reason up to where it may quote: "is not YAML: ..." is one that does."""
    start, colon, _ = why.partition(":")
    return start + "." if colon and why.endswith(".") else start
