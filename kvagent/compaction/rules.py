"""Which sentences bind an agent, and which ones lift what bound it before?"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from kvagent.compaction.words import word_set

Kind = Literal["rule", "goal", "preference"]

_RULE = re.compile(
    r"""
      \b(?: must | mustn't | never | always | only | shall | cannot | required? | requires | mandatory
          | forbidden | prohibited | disallowed | avoid | ensure | refrain | without | instead | strictly
          | important | critical | remember | exclusively | at\ most | at\ least | no\ more\ than
          | no\ (?:less|fewer)\ than | under\ no | not\ (?:be\ )?(?:allowed|permitted|acceptable|ok|okay)
          | (?:unacceptable|off[- ]limits) | make\ sure | be\ sure | have\ to | has\ to | need\ to
          | needs\ to | stop\ \w+ing | hands\ off | no\ \w+\ (?:allowed|please)
          | keep\ (?:it|the|all|to|your|in) | stick\ (?:to|with) | whatever\ you\ do )\b
    | \b(?:do|does|should|must|may|can|shall|could|would|is|are|ca|wo)\ ?n[o']t\b | \bdont\b
    | \b(?:should|ought\ to)\b
    | ^\s*(?:please\s+)?(?:use|keep|leave|respect|follow|treat|stay|limit|assume|skip|ask|confirm|honou?r|obey
          | adhere|let\ (?:no|only)|stick)\b
    | ^\s*(?:rule|constraint|requirement|policy|guideline|convention|warning|reminder)s?\s*\d*\s*:
    | ^\s*(?:all|every|each|any|nothing|nobody|no\ one|none)\b.*\b(?:is|are|needs?|may|goes|go|gets?|ha[sv]e?
          | uses?|stays?|starts?|ends?|begins?)\b
    | \b(?:stays?|read-only|nobody|nothing\ (?:may|else)|away\ from|before\ (?:you|any|each|every|\w+ing))\b
    | ^\s*(?:please\s+)?no\s+(?!problem|worries|idea|need|rush|thanks?\b)\w+
    # German, French, Spanish, Italian, Portuguese, Russian, Chinese, Japanese, Korean
    | \b(?: muss(?:t|en)? | müssen | soll(?:st|en|te)? | nie(?:mals)? | immer | nur | darf(?:st)?\ nicht | nicht
          | kein(?:e[nrms]?)? | verboten | unbedingt | toujours | jamais | doi(?:t|s|vent) | ne\ \w+\ pas
          | seulement | interdit | obligatoire | siempre | nunca | jamás | debe[ns]? | solo | sólo | prohibido
          | obligatorio | sempre | mai | deve | devono | soltanto | vietato | apenas | proibido )\b
    | \b(?: никогда | всегда | только | нельзя | должен | должна | должны | обязательно | запрещено | не )\b
    | 必须 | 不要 | 不能 | 不得 | 禁止 | 务必 | 只能 | 总是 | 始终 | 切勿 | 请勿
    | 必ず | しないで | ないこと | してはいけ | 常に | のみ | 반드시 | 절대 | 항상 | 하지 ?마
    """,
    re.VERBOSE | re.IGNORECASE,
)
_GOAL = re.compile(
    r"\b(?:goals?|aims?|objectives?|purpose|mission|the (?:task|point|idea))\b\W{0,3}(?:\w+\W+){0,4}?"
    r"(?:is|are|was|:|=)"
    r"|\b(?:i|we) (?:would like|'?d like|want|wanna|need)\b|\bthere is a need to\b"
    r"|\b(?:trying|hoping|aiming|planning) to\b"
    r"|\bZiel\b|\b(?:ich|wir) (?:möchte|will|wollen|brauche)n?\b|\bobjectif\b|\bobjetivo\b|目标|目標|цель",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:prefer(?:s|red|ably|ence)?|would rather|'d rather|i (?:really )?(?:like|love|hate|dislike)"
    r"|favou?rite|if possible|bevorzuge|lieber|préfère|prefiero|preferisco|prefiro)\b|偏好|喜欢|предпочита",
    re.IGNORECASE,
)
_STATED_GOAL = re.compile(
    r"\b(?P<name>(?:goal|aim|objective|mission|purpose)\b(?:\s+(?:of|for)\s+(?:\w+\s+){0,3}?\w+)?)\s*"
    r"(?:is|are|=|:)",
    re.IGNORECASE,
)
_LIFTS = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|may now|can now|now (?:be )?(?:allowed|ok|okay|fine|permitted)"
    r"|(?:is|are) (?:allowed|ok|okay|fine|permitted) now|(?:you (?:may|can)|it's ok(?:ay)? to)\b.*\bnow"
    r"|forget (?:about )?|ignore what|scratch that|drop the|lift(?:ed|ing)? the|(?:don't|do not) have to"
    r"|need ?n[o']t|no need to|doesn't matter|withdraw|never ?mind|as of now|from now on)\b",
    re.IGNORECASE,
)
_DATA = re.compile(r"\\n|\\\"|\{\s*[\"']|[\"']\s*:|[\"']\s*[}\]]")  # JSON, logs: pasted, not said
_EMPTY = word_set(
    "a about again all also always an and any anymore are as at avoid be been but by can cannot could did do"
    " does doing don dont ensure every exclusively for from had has have here how i if important in instead"
    " is isn it its just keep let ll longer make may me more must my need needs never no not now of ok okay"
    " on only or our out please really remember shall should shouldn so strictly sure than that the their"
    " them then there these they this those to too under unless until up us use using very was we were what"
    " when where which while who will with without would you your"
)
_WORDS = re.compile(r"[^\W_](?:[\w./:@-]*[^\W_])?")
_QUANTITY = re.compile(
    r"\b(?P<than>at most|at least|no more than|no less than|no fewer than|up to|max(?:imum)?(?: of)?"
    r"|min(?:imum)?(?: of)?|by|before|after|until|under|below|within|exactly|limit(?:ed)? to|than)"
    r"\s+\d[\d.,:]*(?:[ap]m)?",
    re.IGNORECASE,
)
_SUFFIX = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)$")


def kind_of(sentence: str) -> Kind | None:
    """What a sentence of the user's, or of a system message, binds the agent to; None for nothing."""
    sentence = sentence.partition("\n")[0]  # what heads a list says how its items are meant
    if sentence.endswith("?") or len(sentence) < 4 or _DATA.search(sentence):
        return None
    if _PREFERENCE.search(sentence):
        return "preference"
    if _GOAL.search(sentence):
        return "goal"
    return "rule" if _RULE.search(sentence) or lifts(sentence) else None


@lru_cache(maxsize=4096)
def subject_of(sentence: str) -> frozenset[str]:
    """What a sentence is about: its words, without those that bind, deny or count."""
    counted = _QUANTITY.sub(lambda found: found["than"], sentence)
    words = (word.lower() for word in _WORDS.findall(counted))
    return frozenset(_SUFFIX.sub("", word) for word in words if word not in _EMPTY)


@lru_cache(maxsize=4096)
def lifts(sentence: str) -> bool:
    """Whether a sentence sounds as if it took back what was said before."""
    return _LIFTS.search(sentence) is not None


def replaces(new: str, old: str) -> bool:
    """Whether a later sentence takes the place of an earlier one.

    It does if it is about the very same thing, or lifts what the earlier one said.
    """
    before, after = subject_of(old), subject_of(new)
    if before == after:
        return len(before) > 1 or (bool(before) and len(new) < 2 * len(old) + 20)
    return lifts(new) and len(before) > 1 and len(before & after) >= max(2, 0.75 * len(before))


def goal_of(sentence: str) -> frozenset[str] | None:
    """What names the goal that a sentence states outright: "the goal of this week is …"."""
    stated = _STATED_GOAL.search(sentence)
    return subject_of(stated["name"]) if stated is not None else None
