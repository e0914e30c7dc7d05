"""Which rules does a user mean?"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kvagent.audit.rule import Rule
from kvagent.audit.settings import SettingsError
from kvagent.prefixcache.seen import common_prefix

_CODES = "kva"


def meant(word: str, rules: Sequence[Rule]) -> list[Rule]:
    """The rules of a code (``KVA101``), the beginning of one (``KVA1``) or a name.

    Raises:
        SettingsError: there is none.
    """
    lower = word.lower()
    found = [
        rule for rule in rules if rule.name == lower or rule.code.lower().startswith(lower or "-")
    ]
    if not found:
        raise SettingsError(f"{word} is no rule{nearest(word, rules)}")
    return found


def nearest(word: str, rules: Sequence[Rule]) -> str:
    """What may have been meant, as the end of a sentence."""
    lower = word.lower()
    close = get_close_matches(lower, [rule.name for rule in rules], n=3)
    if lower.startswith(_CODES):
        # A digit that is wrong at the end says more than one at the beginning.
        same = {rule.code: common_prefix(lower, rule.code.lower()) for rule in rules}
        longest = max(same.values(), default=0)
        close = [code for code, length in same.items() if length == longest > len(_CODES)][:3]
    if not close:
        return ", `kvagent explain` lists them all"
    return f", was {' or '.join(close)} meant?"


def selected(select: Sequence[str], ignore: Sequence[str], rules: Sequence[Rule]) -> frozenset[str]:
    """The codes of the rules that are looked for.

    As in ruff, the longer word decides where one selects what another one ignores.

    Raises:
        SettingsError: a word means no rule.
    """
    chosen: set[str] = set() if select else {rule.code for rule in rules}
    words = [(word, True) for word in select] + [(word, False) for word in ignore]
    found = [(meant(word, rules), wanted) for word, wanted in words]
    # Few rules go last: they are meant more particularly. Of equal ones to ignore goes last.
    for each, wanted in sorted(found, key=lambda pair: (-len(pair[0]), not pair[1])):
        codes = {rule.code for rule in each}
        chosen = chosen | codes if wanted else chosen - codes
    return frozenset(chosen)
