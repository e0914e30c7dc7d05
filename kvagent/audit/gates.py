"""Does a run hold what the user asked of it?

A condition is a gate; with a baseline a gate fails only for what is worse than known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from kvagent.audit.baseline import Baseline, is_lower, worse
from kvagent.audit.names import called
from kvagent.audit.rule import Finding, Rule, Severity
from kvagent.audit.rules import RULES
from kvagent.audit.selection import meant
from kvagent.audit.session import Gate, Session
from kvagent.audit.settings import Settings, SettingsError

_FROM: dict[str, frozenset[Severity]] = {
    "error": frozenset({"error"}),
    "warning": frozenset({"error", "warning"}),
    "note": frozenset({"error", "warning", "note"}),
}
_NAMED = 3


def gates_of(
    sessions: Sequence[Session], settings: Settings, baseline: Baseline | None = None
) -> list[Gate]:
    """Every condition that was set, and whether it holds.

    Raises:
        SettingsError: ``fail_on`` names no rule.
    """
    gates = [_fail_on(word, sessions, baseline) for word in settings.fail_on]
    if settings.min_hit_rate is not None:
        gates.append(_hit_rate(settings.min_hit_rate, sessions, baseline))
    if settings.max_prompt_tokens is not None:
        gates.append(_longest(settings.max_prompt_tokens, sessions, baseline))
    if baseline is not None:
        gates += _against(baseline, sessions, by_findings=not settings.fail_on)
    return gates


def _fail_on(word: str, sessions: Sequence[Session], baseline: Baseline | None) -> Gate:
    name, wanted = f"fail-on {word}", _wanted(word)
    found = [
        finding
        for session in sessions
        for finding in _new(session, baseline)
        if finding.rule.severity in wanted or finding.rule.code in wanted
    ]
    known = " that is new or worse" if baseline is not None else ""
    if not found:
        return Gate(name, failed=False, said=f"There is no such finding{known}.")
    said = f"{_counted(found)}{known and ', new or worse'}."
    return Gate(name, failed=True, said=said, findings=tuple(found))


def check_words(words: Sequence[str]) -> None:
    """Raises ``SettingsError`` for a word that ``fail_on`` does not know."""
    for word in words:
        _wanted(word)


def _wanted(word: str) -> frozenset[str]:
    """Severities, or codes of rules."""
    severities = _FROM.get(word.lower())
    if severities is not None:
        return frozenset(severities)
    if close := get_close_matches(word.lower(), _FROM, n=1):
        raise SettingsError(f"--fail-on {word} is no severity, was {close[0]} meant?")
    try:
        rules: list[Rule] = meant(word, RULES)
    except SettingsError as error:
        raise SettingsError(f"--fail-on {error}, or error, warning, note") from error
    return frozenset(rule.code for rule in rules)


def _new(session: Session, baseline: Baseline | None) -> Sequence[Finding]:
    if baseline is None:
        return session.findings
    return worse(session, baseline.entry(session))


def _hit_rate(least: float, sessions: Sequence[Session], baseline: Baseline | None) -> Gate:
    """Over all of them: the first prompt of a short session is never in the cache."""
    name = f"min-hit-rate {100 * least:.4g}%"
    prompt = sum(session.totals.prompt_tokens for session in sessions)
    cached = sum(session.totals.predicted_tokens for session in sessions)
    if not prompt:
        return Gate(name, failed=True, said="There is no prompt of which it could be told.")
    rate = cached / prompt
    about = _about(sessions)
    said = (
        f"The hit rate is {about}{rate:.2%}, {about}{cached:,} of {about}{prompt:,} prompt tokens"
    )
    if rate >= least:
        return Gate(name, failed=False, said=f"{said}.")
    below = [s for s in sessions if s.totals.hit_rate is not None and s.totals.hit_rate < least]
    if baseline is not None and not any(_fell(session, baseline) for session in below):
        return Gate(name, failed=False, said=f"{said}, which is known.")
    worst = min(below, key=lambda session: session.totals.hit_rate or 0.0)
    if len(sessions) > 1:
        lowest = f"{_about([worst])}{worst.totals.hit_rate or 0.0:.2%}"
        said += f"; the lowest is {lowest} in {called(worst.file)}"
    return Gate(name, failed=True, said=f"{said}; {least:.2%} was asked for.")


def _fell(session: Session, baseline: Baseline) -> bool:
    entry = baseline.entry(session)
    return entry is None or is_lower(session.totals.hit_rate, entry.hit_rate)


def _longest(most: int, sessions: Sequence[Session], baseline: Baseline | None) -> Gate:
    name = f"max-prompt-tokens {most}"
    over = [session for session in sessions if session.totals.longest > most]
    if baseline is not None:
        known = {session.file: baseline.entry(session) for session in over}
        over = [
            session
            for session in over
            if (entry := known[session.file]) is None or session.totals.longest > entry.longest
        ]
    longest = max(over or sessions, key=lambda session: session.totals.longest, default=None)
    if longest is None:
        return Gate(name, failed=False, said="There is no prompt.")
    said = f"The longest prompt has {_about([longest])}{longest.totals.longest:,} tokens"
    where = f", in {called(longest.file)}" if len(sessions) > 1 else ""
    if not over:
        return Gate(name, failed=False, said=f"{said}{where}.")
    more = f"; {len(over)} files have such prompts" if len(over) > 1 else ""
    return Gate(name, failed=True, said=f"{said}{where}{more}; {most:,} may be sent.")


def _against(
    baseline: Baseline, sessions: Sequence[Session], *, by_findings: bool
) -> Iterator[Gate]:
    """What got worse, a gate for each transcript; one that holds, where nothing did."""
    failed = False
    for session in sessions:
        entry = baseline.entry(session)
        said = []
        found = tuple(worse(session, entry)) if by_findings else ()
        if found:
            said.append(f"{_counted(found)}, new or worse")
        rate = session.totals.hit_rate
        if entry is not None and is_lower(rate, entry.hit_rate):
            now = "not known" if rate is None else f"{_about([session])}{rate:.2%}"
            said.append(f"the hit rate is {now}, it was {entry.hit_rate:.2%}")
        if said:
            failed = True
            text = "; ".join(said)
            text = f"{text[0].upper()}{text[1:]}."
            yield Gate("baseline", failed=True, said=text, file=session.file, findings=found)
    if not failed:
        text = "Nothing got worse."
        if gone := baseline.missing(sessions):
            known = "1 transcript that it knows was" if gone == 1 else f"{gone} that it knows were"
            text += f" {known} not looked at."
        yield Gate("baseline", failed=False, said=text)


def _about(sessions: Sequence[Session]) -> str:
    """What stands in front of a figure of theirs that rests on estimates."""
    return "" if all(session.is_exact for session in sessions) else "≈"


def _counted(findings: Sequence[Finding]) -> str:
    """``3 findings: KVA101 clock-in-head (2), KVA204 ...``."""
    counts = Counter((finding.rule.code, finding.rule.name) for finding in findings)
    told = [
        f"{code} {name}" + (f" ({count})" if count > 1 else "")
        for (code, name), count in counts.most_common(_NAMED)
    ]
    if len(counts) > _NAMED:
        told.append(f"and {len(counts) - _NAMED} more rules")
    findings_said = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return f"{findings_said}: {', '.join(told)}"
