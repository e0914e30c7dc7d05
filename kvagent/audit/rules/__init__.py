"""In which ways can a session lose its prefix or its window, and who looks for each?

One family of rules a file. Codes are never given twice: 1xx is the head, 2xx the history, 3xx the
chat template, 4xx the server's cache, 5xx the window, 6xx what is not a valid request.
"""

from __future__ import annotations

from kvagent.audit.rule import Check, Rule
from kvagent.audit.rules import head

RULES: tuple[Rule, ...] = (*head.RULES,)
"""All rules, by their codes."""

BY_CODE = {rule.code: rule for rule in RULES}


def checks() -> list[Check]:
    """One of each check, for one transcript."""
    return [head.Head()]
