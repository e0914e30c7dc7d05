"""How does old text stand in a record without being taken for something else?

Old text may hold our own markers, the words that end a summary, or the tokens with which a chat
template divides turns; servers read those as tokens wherever they stand.
"""

from __future__ import annotations

import re

_OWN = re.compile(r"\[(?=(?:end of )?kvagent\b)", re.IGNORECASE)
_TURN = re.compile(r"<\|(?=[\w/ -]{1,40}\|>)|<(?=/?(?:start_of_turn|end_of_turn|s|INST|SYS)>)")
_WRAPPER = re.compile(
    r"<(?=/?(?:summary|conversation_summary|system|system-reminder|record|think)\b)"
)


def escaped(text: str) -> str:
    """The text with those marks broken; escaping twice is escaping once."""
    if "[" in text:
        text = _OWN.sub("(", text)
    if "<" in text:
        text = _TURN.sub(lambda found: "< " + found[0][1:], text)
        text = _WRAPPER.sub("< ", text)
    return text
