"""Which findings are the same fault in several conversations, and where is it worst?

A finding is of one conversation. Hundreds of conversations of one agent have its fault hundreds of
times: it is told once, with the conversation that it costs most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvagent.audit.rule import Finding, Severity

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, wherever it was found."""

    worst: Finding
    others: list[Finding]
    """The same in other conversations, the most tokens first."""

    @property
    def count(self) -> int:
        """How often it was seen."""
        return self.worst.count + sum(each.count for each in self.others)

    @property
    def tokens(self) -> int:
        """What it cost, in its rule's own kind of tokens."""
        return self.worst.tokens + sum(each.tokens for each in self.others)

    @property
    def conversations(self) -> int:
        """In how many it was found."""
        return len({each.spots[0].conversation for each in (self.worst, *self.others)})

    @property
    def kv_bytes(self) -> int:
        """Of the KV cache; 0 unless a model was named."""
        return sum(each.kv_bytes or 0 for each in (self.worst, *self.others))


def faults(findings: Sequence[Finding]) -> list[Fault]:
    """The worst first."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule.code, finding.said, finding.fix), []).append(finding)
    found = []
    for group in groups.values():
        worst, *others = sorted(group, key=lambda each: -each.tokens)
        found.append(Fault(worst, others))
    return sorted(found, key=lambda each: (_RANK[each.worst.rule.severity], -each.tokens))
