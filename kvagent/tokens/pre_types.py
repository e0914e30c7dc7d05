r"""How does a byte-level tokenizer cut text into words before it merges within them?

A GGUF names this cut (``tokenizer.ggml.pre``) and does not carry it. Here is what llama.cpp does
under each name: regular expressions one after the other, each cutting the pieces of the one before
it into its matches and what lies between them. Where llama.cpp only approximates the model's own
expression (it knows ``\p{L}``, and no case outside ASCII), its approximation stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreType:
    """One way to cut, and what a vocabulary of this kind does beside.

    ``expressions`` are in Oniguruma's syntax. ``whole_words``: a word that is itself a token is not
    merged up from its bytes. ``adds_bos``: the default where the file does not say.
    """

    expressions: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False


_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_LINES = r"\s*[\r\n]+"
_BLANKS = r"\s+(?!\S)|\s+"
_END = rf"{_LINES}|{_BLANKS}"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SIGNS_AND_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + _BLANKS
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|{_END}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SIGNS}|{_END}"

_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_CJK = "[一-龥぀-ゟ゠-ヿ]+"
_DEEPSEEK3 = (
    rf"{_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_END}"
)


def _cased(letter: str, tail: str) -> str:
    """Words of capitals, then of small letters, as far as ASCII goes; ``letter`` is a class."""
    upper, lower = rf"(?:(?={letter})[^a-z])", rf"(?:(?={letter})[^A-Z])"
    lead = r"[^\r\n\p{L}\p{N}]?"
    return rf"{lead}{upper}*{lower}+{tail}|{lead}{upper}+{lower}*{tail}"


_GPT4O = _cased(r"\p{L}", f"{_CONTRACTION}?") + rf"|\p{{N}}{{1,3}}|{_SIGNS_AND_SLASHES}|{_END}"
_TEKKEN = _cased(r"\p{L}", "") + rf"|\p{{N}}|{_SIGNS_AND_SLASHES}|{_END}"

_BY_DIGIT = PreType((r"\p{N}", _GPT2))
_GPT2_TYPE = PreType((_GPT2,))
_LLAMA3_TYPE = PreType((_LLAMA3,), whole_words=True, adds_bos=True)
_QWEN2_TYPE = PreType((_QWEN2,))
_DEEPSEEK3_TYPE = PreType((r"\p{N}{1,3}", _CJK, _DEEPSEEK3))
_GPT4O_TYPE = PreType((_GPT4O,))

PRE_TYPES: Mapping[str, PreType] = {
    "smollm": _BY_DIGIT,
    "starcoder": _BY_DIGIT,
    "refact": _BY_DIGIT,
    "command-r": _BY_DIGIT,
    "codeshell": _BY_DIGIT,
    "exaone": _BY_DIGIT,
    "minerva-7b": _BY_DIGIT,
    "gpt-2": _GPT2_TYPE,
    "llama-bpe": _LLAMA3_TYPE,
    "llama3": _LLAMA3_TYPE,
    "llama-v3": _LLAMA3_TYPE,
    "qwen2": _QWEN2_TYPE,
    "deepseek-v3": _DEEPSEEK3_TYPE,
    "gpt-4o": _GPT4O_TYPE,
}
"""By the name in ``tokenizer.ggml.pre``."""
