"""What of source code stands when there is no room for all of it?

Every line that stands bears its number. First the outline: what is defined, the outermost first;
then what is left to do and what is raised; then the lines that tell most for their length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from kvagent.shorten.composition import Wish, compose
from kvagent.shorten.numbering import numbered_pieces, without_numbers
from kvagent.shorten.result import Shortened
from kvagent.shorten.source import has_suffix

# Shares of the room. An outline tells where to look, and little of what an agent uses again.
_OUTLINE, _RAISED = 0.15, 0.05

_LONGEST_LINE = 1000  # beyond it, it is minified, or data
_SAMPLE = 50  # lines at the beginning and in the middle that say whether it is code
_CODE, _CODE_BY_NAME = 0.6, 0.4  # so many of them must look so

_LANGUAGES = (
    "bash c cc clj cpp cs css cu dart elm erl ex exs fs go groovy h hh hpp hs java jl js jsx kt kts"
    " lua m mjs ml mm php pl pm pony proto ps1 py pyi pyx r rb rs scala scss sh sol sql svelte"
    " swift tf ts tsx v vue zig zsh"
)
_SUFFIXES = tuple(f".{suffix}" for suffix in _LANGUAGES.split())
_ENDS = frozenset("{}();,[]:\\")
_OPENS = frozenset("{:(=>,\r")
_LOOKS_SO = re.compile(
    r"\s*(?://|/?\*|\#|--|@|<|\"\"\"|'''|\}|\)|\]|[\w.\[\]]+ (?:[-+*/|&]?=|<-) )"
    r"|\s*(?:import|from|export|return|if|else|elif|for|while|try|throw|raise|use|package|include"
    r"|end|const|let|var|func|fn|def|class|struct|yield|await|pass|break|continue|require)\b"
)
_MODIFIERS = (
    "export default public private protected internal static abstract final async override readonly"
    " pub unsafe extern inline virtual open sealed data declare const constexpr"
)
_KINDS = (
    "def class function func fun fn interface enum struct trait impl type union namespace module"
    " object record protocol extension mod sub proc actor primitive new be"
)
_MODIFIER = rf"(?:(?:{_MODIFIERS.replace(' ', '|')})(?:\([^)\n]*\))?[ \t]+)"
# How a line that defines something begins, where it does not end with a brace.
_BEGINNINGS = frozenset(f"{_MODIFIERS} {_KINDS} let var val CREATE".split())
# No line is gone through again from another place: what cannot match is told by one look ahead.
_DEFINITION = re.compile(
    rf"""[ \t]*(?:
      {_MODIFIER}*(?:{_KINDS.replace(" ", "|")}|CREATE[ ]\w+|function\*)\b[ \t*]*[\w$~(<]
    | {_MODIFIER}+(?=[\w$<>\[\],.?*&: \t]*+\()[\w$<>\[\],.?*&: \t]*[\w$]+[ \t]*\(
    | (?:export[ \t]+)?(?:const|let|var|val)[ \t]+[\w$]++[^\n=]*+=[ \t]*(?:async[ \t]*)?
          (?:function\b|\([^\n]*=>|[\w$]+[ \t]*=>|class\b)
    )""",
    re.VERBOSE,
)
# A function or method without any of these words.
_SIGNATURE = re.compile(
    r"""[ \t]*
      (?!(?:if|for|while|switch|catch|return|else|do|with|using|elif|match|foreach|until)\b)
          [\w$\#]++[ \t]*+\([^()\n;]*+\)[^;\n=]*\{[ \t\r]*$
    | (?=[\w \t*&:<>,~]*+\()[A-Za-z_][\w \t*&:<>,]*[ \t*&][\w:~]+\([^;\n]*$""",
    re.VERBOSE,
)
_RAISES = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|\braise [A-Z]\w+|\bthrow new \w+|\bpanic!?\(")
_RAISE_STEMS = ("TODO", "FIXME", "XXX", "HACK", "raise ", "throw new ", "panic")  # quickly found


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens source code to at most `budget` characters; None if `text` is none."""
    if "\x1b" in text or "\n" not in text:
        return None
    bare = without_numbers(text)
    told = text if bare is None else bare
    if text.endswith("\n"):  # else the last line may be a number with nothing behind it
        told = told.removesuffix("\n")
    lines = told.split("\n")
    by_name = bare is not None or names_code(source)
    if not _is_code(lines, by_name=by_name) or len(max(lines, key=len)) > _LONGEST_LINE:
        return None
    wishes = [
        Wish(outline(lines), _OUTLINE, through=True),
        Wish(_raising(told), _RAISED, through=True),
    ]
    pieces = numbered_pieces(text, bare)
    return compose(pieces, budget, wishes, total=len(lines), handle=handle, told=told, known=known)


def names_code(source: str | None) -> bool:
    """Whether `source` names a file of a programming language."""
    return has_suffix(source, _SUFFIXES)


def outline(lines: Sequence[str]) -> list[int]:
    """The indexes of the lines that define something, the outermost first."""
    found = [
        index
        for index, line in enumerate(lines)
        # A quick look first: inside of another one, few things are defined in a whole line.
        if line
        and (line[-1] in _OPENS or line[0] not in " \t}" or "def " in line)
        and _defines(line)
    ]
    depths = {index: len(lines[index]) - len(lines[index].lstrip()) for index in found}
    return sorted(found, key=depths.__getitem__)


def _defines(line: str) -> bool:
    words = line.split(None, 1)
    if words and words[0].partition("(")[0].partition("<")[0] in _BEGINNINGS:
        return bool(_DEFINITION.match(line) or _SIGNATURE.match(line))
    return "(" in line and line[-1] not in ");," and _SIGNATURE.match(line) is not None


def _raising(text: str) -> list[int]:
    """The indexes of the lines that say what is left to do, or raise something."""
    hits: list[int] = []
    for stem in _RAISE_STEMS:
        hit = text.find(stem)
        while hit >= 0:
            if _RAISES.match(text, hit):
                hits.append(hit)
            hit = text.find(stem, hit + len(stem))
    found: dict[int, None] = {}
    index = counted = 0
    for hit in sorted(hits):
        index += text.count("\n", counted, hit)
        counted = hit
        found[index] = None
    return list(found)


def _is_code(lines: Sequence[str], *, by_name: bool) -> bool:
    middle = max(_SAMPLE, len(lines) // 2)
    sample = [line.rstrip() for line in (*lines[:_SAMPLE], *lines[middle : middle + _SAMPLE])]
    sample = [line for line in sample if line]
    looks_so = sum(line[-1] in _ENDS or _LOOKS_SO.match(line) is not None for line in sample)
    if looks_so <= (_CODE_BY_NAME if by_name else _CODE) * len(sample):
        return False
    return by_name or sum(map(_defines, sample)) > 1
