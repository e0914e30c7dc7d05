"""In which ways can a session lose its prefix or its window, and who looks for each?

One family of rules a file. Codes are never given twice: 1xx is the head, 2xx the history, 3xx the
chat template, 4xx the server's cache, 5xx the window, 6xx what is not a valid request.
"""

from __future__ import annotations

from kvagent.audit.rule import Check, Rule
from kvagent.audit.rules import (
    cache,
    cache_key,
    encoded,
    head,
    heads,
    history,
    prefix,
    reported,
    results,
    template,
    templates,
    unused_tools,
    valid,
    window,
)

_FAMILIES = (
    head.RULES,
    history.RULES,
    template.RULES,
    (*cache.RULES, *cache_key.RULES, *reported.RULES),
    (*results.RULES, *unused_tools.RULES, *encoded.RULES, *window.RULES),
    valid.RULES,
)

RULES: tuple[Rule, ...] = tuple(
    sorted((rule for family in _FAMILIES for rule in family), key=lambda rule: rule.code)
)
"""All rules, by their codes."""

BY_CODE = {rule.code: rule for rule in RULES}


def checks() -> list[Check]:
    """One of each check, for one transcript."""
    return [
        prefix.Prefix(),
        heads.Heads(),
        templates.Template(),
        cache.Cache(),
        cache_key.CacheKey(),
        reported.Reports(),
        results.LongResults(),
        results.SameResults(),
        unused_tools.UnusedTools(),
        encoded.Encoded(),
        window.Window(),
        valid.Valid(),
    ]
