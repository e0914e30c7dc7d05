"""Which characters does this terminal have, and what stands in for the others?

Whatever a text holds, no control character comes out.
"""

from __future__ import annotations

from kvagent.audit.report.lines import one_line

# As wide as they need to be: widths are taken after this.
_INSTEAD = {
    "…": "...",
    "≈": "~",
    "→": "->",
    "−": "-",
    "–": "-",
    "·": "|",
    "✗": "x",
    "✓": "+",
    "⟨": "<",
    "⟩": ">",
    "↵": "\\n",
    "⇥": "\\t",
    "␣": "_",
    "×": "x",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
}


class Letters:
    """Writes texts with the characters of an encoding."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._all = encoding.lower().replace("_", "-") in ("utf-8", "utf8")

    def __call__(self, text: str) -> str:
        """The text as one line; what cannot be seen is named."""
        shown = one_line(text)
        if self._all or self._has(shown):
            return shown
        return "".join(
            each if self._has(each) else self._translated(_INSTEAD.get(each, "?")) for each in shown
        )

    def _translated(self, text: str) -> str:
        return text if self._has(text) else "?"

    def _has(self, text: str) -> bool:
        try:
            text.encode(self._encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True
