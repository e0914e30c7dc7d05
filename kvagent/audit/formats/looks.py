"""What does a file look like that is no transcript?"""

from __future__ import annotations

import re

from kvagent.audit.formats.contents import Contents, kind

_MAGIC = (
    (b"PK\x03\x04", "a ZIP archive"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"SQLite format 3", "an SQLite database"),
    (b"GGUF", "a GGUF model"),
    (b"PAR1", "a Parquet table"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
    (b"BZh", "a bzip2 archive, which has to be unpacked first"),
    (b"\xfd7zXZ", "an xz archive, which has to be unpacked first"),
)
_YAML = re.compile(rb"^[A-Za-z_][\w .-]*:(?: |\r?$)", re.MULTILINE)
_KEYS = 6
_SHOWN = 40


def looks_like(contents: Contents) -> str:
    """A few words, as in "an object with the keys a, b, c"."""
    head = contents.head
    if not head.strip() and not contents.values:
        return (
            "an empty file"
            if contents.why.startswith("is not JSON") or not contents.why
            else (f"a file that {contents.why}")
        )
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if contents.values:
        return _json(contents)
    if b"\0" in head:
        return "binary data"
    start = head.lstrip()[:1]
    if start in (b"{", b"["):
        return f"JSON that cannot be read: it {contents.why}"
    if start == b"<":
        return "HTML or XML"
    if _YAML.match(head.lstrip().removeprefix(b"---").lstrip()):
        return "YAML"
    return "text"


def _json(contents: Contents) -> str:
    value = contents.values[0]
    lines = "" if contents.document or contents.alone else ", one value a line"
    if isinstance(value, list):
        if not value:
            return f"an empty list{lines}"
        return f"a list of which the first item is {_value(value[0])}{lines}"
    return f"{_value(value)}{lines}"


def _value(value: object) -> str:
    if isinstance(value, dict):
        if not value:
            return "an empty object"
        keys = [str(key)[:_SHOWN] for key in list(value)[:_KEYS]]
        more = ", ..." if len(value) > _KEYS else ""
        return f"an object with the keys {', '.join(keys)}{more}"
    return kind(value)
