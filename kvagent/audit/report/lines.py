"""Which line differs, and in which words is a finding told where there is no room for a page?"""

from __future__ import annotations

from dataclasses import dataclass

from kvagent.audit.figures import count, several, size
from kvagent.audit.report.page.visible import visible
from kvagent.audit.report.page.words import where
from kvagent.audit.rule import Contrast, Finding, Spot

# Characters of a line that are shown on each side of the place.
_AROUND = 60

_COSTS = {"prefill": "computed once more", "context": "that stand in the prompt and need not"}


@dataclass(frozen=True, slots=True)
class Differing:
    """One line before and one after, without line ends or what cannot be seen."""

    before: str
    """Empty where nothing was sent."""
    after: str
    """Empty where nothing is sent."""
    at: int
    """Where in both the first character that differs stands."""


def differing(contrast: Contrast) -> Differing:
    """Of both texts the line with the first differing character, around it."""
    at = contrast.offset
    start = contrast.before.rfind("\n", 0, at) + 1
    if start == at > 0 and at in map(len, (contrast.before, contrast.after)):
        # A text that ends here has no more line: that of its last line end is shown.
        start = contrast.before.rfind("\n", 0, at - 1) + 1
    begin = max(start, at - _AROUND)
    common = ("…" if begin > start else "") + one_line(contrast.before[begin:at])
    sides = [
        common + _to_line_end(text, at) if text else ""
        for text in (contrast.before, contrast.after)
    ]
    return Differing(sides[0], sides[1], len(common))


def _to_line_end(text: str, at: int) -> str:
    end = text.find("\n", at + 1)
    rest = text[at:] if end < 0 else text[at:end]
    return one_line(rest[:_AROUND]) + ("…" if len(rest) > _AROUND else "")


def one_line(text: str) -> str:
    """A text of any kind as one line in which every character is seen."""
    return visible(text).replace("\n", "↵").replace("\t", "⇥")


def cost(finding: Finding, *, exact: bool) -> str:
    """``Seen 3 times, 1,234 tokens computed once more, 12.0 MiB of KV cache.``"""
    parts = [f"Seen {several(finding.count, 'time')}"]
    if finding.rule.cost and finding.tokens:
        tokens = count(finding.tokens, exact)
        noun = "token" if finding.tokens == 1 else "tokens"
        parts.append(f"{tokens} {noun} {_COSTS[finding.rule.cost]}")
        if finding.kv_bytes is not None:
            parts.append(f"{size(finding.kv_bytes, exact)} of KV cache")
    return ", ".join(parts) + "."


def place(spot: Spot, *, many: bool) -> str:
    """Where in its conversation, as ``turn 3 · message 0 · content · character 41``.

    Args:
        many: whether the transcript has several conversations.
    """
    return one_line(where(spot, many=many))
