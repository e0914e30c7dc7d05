"""What must a narrative hold, and what must it not, before it may stand for old turns?

Checked without a model, so that what is wrong can be named: to the model, once, and to the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from kvagent.chat import HEAD_ROLES, calls_of, text_of
from kvagent.compaction import narrative as form
from kvagent.compaction import rules, values
from kvagent.compaction.facts import Facts
from kvagent.compaction.language import language_of, script_of
from kvagent.compaction.quotes import unquoted
from kvagent.compaction.record import LATELY, OPEN
from kvagent.compaction.sentences import sentences_of
from kvagent.compaction.words import word_set

SHARE = 0.5
"""Of the source's tokens, the most that a narrative may have."""

_QUOTE = 6  # words of the user's last request, in a row
_NAMED = 5  # so many missing things are named; the rest are counted

_RESIDUE = re.compile(
    r"</?(?:think(?:ing)?|thought|reasoning|analysis|summary|tool_call|function_call|function|invoke"
    r"|tool_response)\b|\[/?TOOL_CALLS?\]|\[TOOL_REQUEST\]|<\|[\w▁-]+\|>|<｜"
    r"|^\s*\{\s*\"(?:name|function|tool|tool_calls)\"\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_TYPED = re.compile(
    r"""
      (?P<url>    https?://[^\s"'<>)\]`*]+ )
    | (?P<path>   (?:[\w.@~+-]+)?(?:/[\w.@+-]+)+/? )
    | (?P<hash>   \b(?=[0-9a-f-]*\d)[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b )
    | (?P<symbol> \b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w+)+ | \b[A-Za-z]\w*_\w+ | \b[a-z]+[A-Z]\w+
                | \b[A-Z][a-z]+[A-Z]\w* )
    | (?P<code>   \b[A-Za-z]+[A-Za-z-]*\d[\w-]* )
    | (?P<number> \b\d{4,}\b )
    """,
    re.VERBOSE,
)
_PROSE_SLASH = re.compile(r"[A-Za-z]+(?:/[A-Za-z]+)+")  # and/or
_FIRST_PERSON: Mapping[str, re.Pattern[str]] = {
    "English": re.compile(
        r"(?<![Pp]hase )(?<![Pp]art )(?<![Tt]ype )\bI\b(?!/O)(?:'(?:m|ve|ll|d)\b)?"
        r"|\b(?:[Mm]y|[Mm]yself|[Ww]e|[Ww]e'(?:re|ve|ll)|[Oo]ur|[Oo]urs|[Ll]et's|[Ll]et me)\b"
    ),
    "German": re.compile(r"\b(?:ich|wir|mein\w*|unser\w*|uns|mir|mich)\b", re.IGNORECASE),
    "French": re.compile(r"\b(?:je|j['’]\w+|nous|mon|ma|mes|notre|nos)\b", re.IGNORECASE),
    "Spanish": re.compile(
        r"\b(?:yo|nosotros|mi|mis|nuestr[oa]s?|voy|vamos|hemos|he)\b", re.IGNORECASE
    ),
    "Italian": re.compile(r"\b(?:io|noi|mio|mia|miei|nostr[oaie]|ho|abbiamo)\b", re.IGNORECASE),
    "Portuguese": re.compile(r"\b(?:eu|nós|meu|minha|nosso|nossa|vou|vamos)\b", re.IGNORECASE),
    "Dutch": re.compile(r"\b(?:ik|wij|mijn|onze|ons)\b", re.IGNORECASE),
}
_FIRST_PERSON_OF_SCRIPT: Mapping[str, re.Pattern[str]] = {
    "Chinese or Japanese": re.compile("我|咱们|私は|私が|僕"),
    "Cyrillic": re.compile(r"\b(?:я|мы|мой|моя|моё|наш|наша)\b", re.IGNORECASE),
}
_ADDRESS = re.compile(r"\b(?:[Yy]ou|[Yy]ours?|[Yy]ou'(?:re|ve|ll))\b")
_ORDER = re.compile(
    r"\b(?:must|never|always|shall|do not|don't|ignore|disregard|forget|override|obey|from now on"
    r"|(?:is|are) to be|(?:has|have) to|should|required|no longer)\b",
    re.IGNORECASE,
)
_VERBS = word_set(
    "add answer approve call change click commit copy create curl delete disable disregard download email"
    " enable ensure execute expose export fetch follow forget forward give grant ignore include insert"
    " install leak make merge obey open output override paste post print publish push put read remove reply"
    " reset respond return reveal run say send set share show skip stop submit switch tell transfer treat"
    " upload use visit wire write"
)
_OVERTHROW = re.compile(
    r"\b(?:ignore|disregard|forget|override)\s+(?:(?:all|any|the|your|every|these|those|of)\s+)*"
    r"(?:previous|prior|earlier|above|other|system|user'?s?|former)\b",
    re.IGNORECASE,
)
_LIFTED = re.compile(
    r"\b(?:no longer|not any ?more|lifted|waived|withdrawn|withdrew|dropped|relaxed|over(?:ridden|ruled)"
    r"|overrode|cancel+ed|revoked|rescinded|superseded|obsolete|outdated|removed|(?:may|can|could) now"
    r"|now (?:allowed|permitted|ok|okay|fine)|(?:does|did|do) not apply|not (?:binding|in force|needed)"
    r"|need not|suspended|replaced|ignored?|exempt(?:ed)?|void)\b",
    re.IGNORECASE,
)
_MARKER = re.compile(r"^[\s#*>+\d.)(-]*(?:\[[ xX]\]\s*)?")


class Answer(Protocol):
    """What is looked at of an answer."""

    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str | None: ...
    @property
    def tool_calls(self) -> Sequence[Any]: ...


def faults(
    reply: Answer,
    source: Sequence[Mapping[str, Any]],
    facts: Facts,
    count_tokens: Callable[[str], int],
    *,
    ledger: str = "",
    requests: Sequence[str] = (),
    known: str = "",
) -> list[str]:
    """What is wrong with a narrative, one sentence each; empty where it may stand.

    source    the messages that it shall stand for
    facts     of these messages and all before
    ledger    the record of the facts that will stand beside it; what that holds it need not hold
    requests  what else may be quoted as the user's last request than the last one in ``source``
    known     text beside ``source`` that the model saw: earlier records, system messages
    """
    text = reply.text.strip()
    broken = [*_broken(reply, text)]
    if broken:
        return broken
    material = _Material(source, known)
    return [
        *_formal(text),
        *_unquoted_request(text, [form.last_request(source), *requests]),
        *_missing(text, facts, ledger),
        *_unknown(text, material, facts),
        *_stale(text, facts),
        *_lifted(text, facts),
        *_orders(text, material),
        *_voice(text),
        *_tongue(text, material),
        *_length(text, material, count_tokens),
    ]


def _broken(reply: Answer, text: str) -> Iterator[str]:
    """Faults that leave nothing to look at any closer."""
    if reply.tool_calls:
        yield "it called a tool; only text was asked for"
    if reply.finish_reason != "stop":
        yield f"it was not finished (finish_reason {reply.finish_reason!r}); it must be shorter"
    if not text:
        yield "it was empty"
    residue = _RESIDUE.search(text)
    if residue is not None:
        yield f"it held {residue[0].strip()!r}; only the eight sections were asked for"


def _formal(text: str) -> Iterator[str]:
    sections = form.sections_of(text)
    for number, heading in enumerate(form.HEADINGS, 1):
        if number not in sections:
            yield f'the section "## {number}. {heading}" was missing'
        elif not sections[number]:
            yield f'the section "## {number}. {heading}" had no line; "None" where there is nothing'
    hints = [
        line for line in text.split("\n") if line.strip() in _HINTS or _PLACEHOLDER.fullmatch(line)
    ]
    if hints:
        yield f"it held a placeholder: {_cut(hints[0].strip())}"
    told = [number for number, lines in sections.items() if lines and not form.is_nothing(lines)]
    if form.CURRENT in sections and form.CURRENT not in told:
        yield "the first section said nothing"
    elif sections and len(told) < 2:
        yield "it said nothing beside the first section"


_HINTS = {line for line in form.INSTRUCTION.split("\n") if line.startswith("(")}
_PLACEHOLDER = re.compile(
    r"[\s*-]*(?:<[^<>]+>|\[[^\[\]]{3,}\]|\.{3}|…|lorem ipsum.*)\s*", re.IGNORECASE
)


def _unquoted_request(text: str, requests: Sequence[str]) -> Iterator[str]:
    wanted = [words for words in map(_words, requests) if words]
    said = f" {' '.join(_words(text))} "
    for words in wanted:
        size = min(_QUOTE, len(words))
        if any(
            f" {' '.join(words[at : at + size])} " in said for at in range(len(words) - size + 1)
        ):
            return
    if wanted:
        start = " ".join(wanted[-1][:12])
        yield f'it did not quote the user\'s last request word for word; it begins "{start}"'


def _missing(text: str, facts: Facts, ledger: str) -> Iterator[str]:
    """What stands neither in the narrative nor beside it."""
    held = " ".join(f"{text}\n{ledger}".split())
    wanted = {
        "the changed file": [
            file.path for file in facts.files if file.changes and not file.deleted
        ],
        "the rule": facts.rules,
        "the open error": [problem.said[0] for problem in facts.problems if problem.said],
    }
    if ledger:  # which leaves out the older ones where there is no room for all
        wanted["the changed file"] = wanted["the changed file"][-LATELY:]
        wanted["the open error"] = wanted["the open error"][-OPEN:]
    for what, items in wanted.items():
        gone = [item for item in items if " ".join(item.split()) not in held]
        for item in gone[:_NAMED]:
            yield f"{what} was missing: {_cut(item)}"
        if len(gone) > _NAMED:
            yield f"{what} and {len(gone) - _NAMED} more like it were missing"


def _unknown(text: str, material: _Material, facts: Facts) -> Iterator[str]:
    held = f"{material.all}\n{orjson.dumps(facts.to_json()).decode()}".lower()
    invented = dict.fromkeys(name for name in _names_in(text) if not _holds(held, name.lower()))
    for name in list(invented)[:_NAMED]:
        yield f"it named what stands nowhere above: {_cut(name)}"
    if len(invented) > _NAMED:
        yield f"and {len(invented) - _NAMED} more names that stand nowhere above"


def _names_in(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if form.sections_of(f"{line}\n"):
            continue  # a heading
        for found in _TYPED.finditer(line):
            name = found[0].rstrip(".,:;-/'")
            prose = found.lastgroup == "path" and _PROSE_SLASH.fullmatch(name)
            if len(name) >= 4 and not prose:
                yield name


def _holds(held: str, name: str) -> bool:
    if name in held:
        return True
    path = re.fullmatch(r"(?:\.\.\.|…)?/?(.+?)(?::\d+(?:[-:]\d+)?)?", name)
    return path is not None and path[1] in held


def _stale(text: str, facts: Facts) -> Iterator[str]:
    for key, value in facts.stale:
        finder = values.find(value)
        words = values.subject_of(key)
        for line in text.split("\n"):
            told = values.is_telling(value) or words <= values.subject_of(line)
            if told and finder.search(line):
                yield f"it told the value {value} of {key}, which the user has replaced since"
                break


def _lifted(text: str, facts: Facts) -> Iterator[str]:
    for rule in facts.rules:
        subject = rules.subject_of(rule)
        enough = max(2, 0.6 * len(subject))
        for line in text.split("\n"):
            if _LIFTED.search(line) and len(subject & rules.subject_of(line)) >= enough:
                yield f"it told that a rule does not hold which the user never lifted: {_cut(rule)}"
                break


def _orders(text: str, material: _Material) -> Iterator[str]:
    """Orders that a tool gave and the user did not."""
    for sentence in sentences_of(unquoted(text)):
        bare = _MARKER.sub("", sentence)
        if _OVERTHROW.search(bare):
            yield f"it gave an order that the user did not give: {_cut(bare)}"
        elif _is_order(bare):
            words = rules.subject_of(bare)
            if (
                len(words) >= 2
                and material.ordered_by_tools(words)
                and not material.user_said(words)
            ):
                yield f"it repeated as an order what a tool's text said: {_cut(bare)}"


def _is_order(sentence: str) -> bool:
    first = re.match(r"(?:please\s+|then\s+|next,?\s+)?([A-Za-z]+)", sentence, re.IGNORECASE)
    return bool(_ORDER.search(sentence)) or (first is not None and first[1].lower() in _VERBS)


def _voice(text: str) -> Iterator[str]:
    said = unquoted(text)
    language, script = language_of(text), script_of(text)
    finder = _FIRST_PERSON.get(language or "English") if script in {None, "Latin"} else None
    finder = _FIRST_PERSON_OF_SCRIPT.get(script or "") or finder
    found = finder.search(said) if finder is not None else None
    if found is not None:
        yield f"it spoke in the first person ({found[0]!r}); it must be in the third, quotations apart"
    if language in {None, "English"} and (found := _ADDRESS.search(said)) is not None:
        yield f"it addressed the reader ({found[0]!r}); it must be in the third person"


def _tongue(text: str, material: _Material) -> Iterator[str]:
    body = "\n".join(line for lines in form.sections_of(text).values() for line in lines)
    for told in (script_of, language_of):
        own = told(body)
        both = f"{material.user}\n{material.assistant}"
        others = {told(text) for text in (material.user, material.assistant, both)} - {None}
        if own is not None and others and own not in others:
            yield f"it was written in {own}, the conversation in {' and '.join(sorted(map(str, others)))}"
            return


def _length(text: str, material: _Material, count_tokens: Callable[[str], int]) -> Iterator[str]:
    most = int(SHARE * count_tokens(material.own))
    size = count_tokens(text)
    if size > most:
        yield f"it had {size} tokens; at most {most} are of use"


class _Material:
    """The texts that a narrative is held against."""

    def __init__(self, source: Sequence[Mapping[str, Any]], known: str) -> None:
        texts: dict[str, list[str]] = {}
        for message in source:
            role = str(message.get("role"))
            texts.setdefault(role, []).append(text_of(message))
            texts.setdefault("calls", []).extend(_call_texts(message))
        joined = {role: "\n".join(parts) for role, parts in texts.items()}
        self.user = "\n".join(joined.get(role, "") for role in ("user", *HEAD_ROLES))
        self.assistant = joined.get("assistant", "")
        self.tools = "\n".join(joined.get(role, "") for role in ("tool", "function"))
        self.own = "\n".join((self.user, self.assistant, self.tools, joined.get("calls", "")))
        self.all = f"{self.own}\n{known}"

    def ordered_by_tools(self, words: frozenset[str]) -> bool:
        """Whether a tool's text holds an order with most of these words."""
        return any(_is_order(_MARKER.sub("", line)) for line in self._with(words, self.tools))

    def user_said(self, words: frozenset[str]) -> bool:
        """Whether the user said something with most of these words."""
        return any(True for _ in self._with(words, self.user))

    @staticmethod
    def _with(words: frozenset[str], text: str) -> Iterator[str]:
        """The sentences of a text that hold most of the words."""
        enough = max(2, 0.7 * len(words))
        lowered = {word[:5] for word in words}
        for line in text.split("\n"):
            low = line.lower()
            if sum(word in low for word in lowered) < enough:
                continue
            for sentence in sentences_of(line) or [line]:
                if len(words & rules.subject_of(sentence)) >= enough:
                    yield sentence


def _call_texts(message: Mapping[str, Any]) -> Iterator[str]:
    for call in calls_of(message):
        function = call.get("function")
        if not isinstance(function, dict):
            continue
        yield str(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            yield arguments
            try:
                arguments = orjson.loads(arguments)
            except orjson.JSONDecodeError:
                continue
        yield from _strings(arguments)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif value is not None:
        yield str(value)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _cut(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
