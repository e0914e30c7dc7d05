"""What is found in a log of requests?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvagent.audit.analyse import audit
from kvagent.audit.rule import Check, Finding
from kvagent.audit.rules import checks
from kvagent.audit.session import Session
from kvagent.audit.transcript import Item
from kvagent.audit.turns import Analysis


@dataclass(frozen=True)
class Made:
    """A format for what no file holds."""

    name: str = "made"
    title: str = "made for a test"


def session(
    items: Iterable[Item], analysis: Analysis | None = None, only: Sequence[Check] | None = None
) -> Session:
    """The audit of a log, by all checks or only some."""
    some = checks() if only is None else only
    return audit(items, "log.jsonl", Made(), analysis or Analysis(), some)  # type: ignore[arg-type]


def findings(items: Iterable[Item], code: str, analysis: Analysis | None = None) -> list[Finding]:
    """What all checks find in a log under one code."""
    return [each for each in session(items, analysis).findings if each.rule.code == code]


def finding(items: Iterable[Item], code: str, analysis: Analysis | None = None) -> Finding:
    """The only finding under a code."""
    (found,) = findings(items, code, analysis)
    return found
