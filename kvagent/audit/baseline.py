"""What was known to be wrong, and what got worse since?

A small file that people commit: for each transcript its hit rate, its longest prompt and its
findings, in an order that makes a change of one a change of few lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kvagent.audit.rule import Finding
from kvagent.audit.session import Session
from kvagent.audit.settings import SettingsError

VERSION = 1

# An agent does not say the same twice: so much more of one finding's tokens, and so much less of
# the hit rate, is not yet worse.
_TOKENS = 0.10
_RATE = 0.01


@dataclass(frozen=True, slots=True)
class Known:
    """Findings of one kind in one transcript."""

    count: int = 0
    """How often it was seen."""
    tokens: int = 0
    """What it cost, in the rule's own kind of tokens."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a baseline says of one transcript."""

    hit_rate: float | None
    """The share of prompt tokens that the server would take from its cache."""
    longest: int
    """Tokens of the longest prompt."""
    findings: Mapping[str, Known]
    """By rule and what it is."""

    @classmethod
    def of(cls, session: Session) -> Entry:
        """What a session is now."""
        found: dict[str, Known] = {}
        for finding in session.findings:
            key = key_of(finding)
            old = found.get(key, Known())
            found[key] = Known(old.count + finding.count, old.tokens + finding.tokens)
        return cls(_rounded(session.totals.hit_rate), session.totals.longest, found)


def key_of(finding: Finding) -> str:
    """The rule and what it is, without what differs from one recording to the next."""
    parts = finding.rule.code, finding.rule.name, _writable(finding.about)
    return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is known of some transcripts."""

    folder: Path
    """Names are relative to it, so that it does not matter from where one calls."""
    entries: Mapping[str, Entry]

    @classmethod
    def of(cls, sessions: Iterable[Session], file: str) -> Baseline:
        """What these sessions are now, to be written to a file."""
        folder = Path(file).absolute().parent
        return cls(folder, {_name(session.file, folder): Entry.of(session) for session in sessions})

    @classmethod
    def read(cls, file: str) -> Baseline:
        """A baseline that was written.

        Raises:
            SettingsError: it cannot be read, or is none.
        """
        try:
            value = orjson.loads(Path(file).read_bytes())
        except OSError as error:
            raise SettingsError(f"cannot read the baseline {file}: {_why(error)}") from error
        except orjson.JSONDecodeError as error:
            raise SettingsError(f"the baseline {file} is not JSON: {error}") from error
        version = value.get("version") if isinstance(value, dict) else None
        if version != VERSION:
            raise SettingsError(
                f"{file} is no baseline of this version of kvagent: write it anew with "
                f"--write-baseline {file}"
            )
        try:
            entries = {str(name): _entry(entry) for name, entry in value["files"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SettingsError(
                f"the baseline {file} is damaged: write it anew with --write-baseline {file}"
            ) from error
        return cls(Path(file).absolute().parent, entries)

    def written(self) -> bytes:
        """It as JSON: sorted, a finding a line."""
        value = {"version": VERSION, "files": {n: _json(e) for n, e in self.entries.items()}}
        return orjson.dumps(
            value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        )

    def entry(self, session: Session) -> Entry | None:
        """What is known of a session; None: it is new."""
        return self.entries.get(_name(session.file, self.folder))

    def missing(self, sessions: Iterable[Session]) -> int:
        """How many transcripts it knows that are not among these."""
        return len(self.entries.keys() - {_name(each.file, self.folder) for each in sessions})


def is_worse(now: Known, known: Known) -> bool:
    """Whether a finding was seen more often, or costs more than one that is known."""
    return now.count > known.count or now.tokens > known.tokens * (1 + _TOKENS)


def is_lower(now: float | None, known: float | None) -> bool:
    """Whether a hit rate fell by more than a point."""
    return known is not None and (now is None or now < known - _RATE)


def worse(session: Session, entry: Entry | None) -> Sequence[Finding]:
    """The findings that are not known, or worse than known."""
    known = {} if entry is None else entry.findings
    now = Entry.of(session).findings
    return [
        finding
        for finding in session.findings
        if is_worse(now[key_of(finding)], known.get(key_of(finding), Known()))
    ]


def _entry(value: Any) -> Entry:
    rate = value["hit_rate"]
    if rate is not None and not isinstance(rate, int | float):
        raise TypeError("hit_rate is no number")
    findings = {
        str(key): Known(int(each["count"]), int(each["tokens"]))
        for key, each in value["findings"].items()
    }
    return Entry(rate, int(value["longest_prompt"]), findings)


def _json(entry: Entry) -> dict[str, Any]:
    return {
        "hit_rate": entry.hit_rate,
        "longest_prompt": entry.longest,
        "findings": {
            key: {"count": known.count, "tokens": known.tokens}
            for key, known in entry.findings.items()
        },
    }


def _name(file: str, folder: Path) -> str:
    if file == "-":
        return file
    try:
        path = Path(os.path.relpath(Path(file).absolute(), folder))
    except ValueError:  # on another drive
        path = Path(file).absolute()
    return _writable(path.as_posix())


def _writable(text: str) -> str:
    """A text that JSON can hold: a name may have bytes that are no text."""
    return text.encode(errors="replace").decode()


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 4)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
