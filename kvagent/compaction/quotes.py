"""What of a text does its writer say himself, and what does he only quote?"""

from __future__ import annotations

import re

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|「[^」\n]*」|『[^』\n]*』"
    r"|^[ \t]*>.*?$",
    re.DOTALL | re.MULTILINE,
)


def unquoted(text: str) -> str:
    """The text with a blank for each quotation."""
    return _QUOTED.sub(" ", text)
