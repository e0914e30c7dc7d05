"""What of a terminal's output was never meant to be read?"""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours and cursor movement
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # window titles, hyperlinks
    r"|[ -/]*[0-Z\\^-~]"  # everything else
    r")"
)
_NOT_WORDS = re.compile(r"[^\w%]|[\d_]")


def clean(text: str) -> str:
    """`text` without terminal escapes and without progress lines that the next one overwrote.

    The number of line feeds stays the same, so line numbers still hold.
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "\r" in text:
        text = "\n".join(map(_last_states, text.split("\n")))
    return text


def _last_states(line: str) -> str:
    # A carriage return also ends lines in old files. Only states with the same words, differing in
    # digits and bars, are progress; of those the last one is what a terminal would have shown.
    if line.find("\r", 0, -1) < 0:
        return line
    states = line.split("\r")
    words = [_NOT_WORDS.sub("", state) for state in states]
    return "\r".join(
        state
        for state, own, following in zip(states, words, [*words[1:], ""], strict=True)
        if not own or own != following
    )
