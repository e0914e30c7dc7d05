r"""How does a byte-level tokenizer cut text into words before it merges within them?

A GGUF names this cut (``tokenizer.ggml.pre``) and does not carry it. Here is what llama.cpp does
under each name: regular expressions one after the other, each cutting the pieces of the one before
it into its matches and what lies between them. Where llama.cpp only approximates the model's own
expression (it knows ``\p{L}``, and no case outside ASCII), its approximation stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


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
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_WORD = rf"{_LEAD}\p{{L}}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SIGNS_AND_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_BLANKS = r"\s+(?!\S)|\s+"
_END = rf"\s*[\r\n]+|{_BLANKS}"

_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|{_BLANKS}"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|{_END}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SIGNS}|{_END}"

_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_MARKED = rf"{_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
_CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
_SENTENCE_ENDS = r" ?[^(\s|.,!?…。，、।۔،)]+"
_OPERATORS = r"$+<=>\^~|"


def _cased(letter: str, tail: str = "") -> str:
    """Words of capitals, then of small letters, as far as ASCII goes; ``letter`` is a class."""
    upper, lower = rf"(?:(?={letter})[^a-z])", rf"(?:(?={letter})[^A-Z])"
    return rf"{_LEAD}{upper}*{lower}+{tail}|{_LEAD}{upper}+{lower}*{tail}"


_CASED = _cased(r"\p{L}")
_CASED_CONTRACTED = _cased(r"\p{L}", f"{_CONTRACTION}?")
_SLASHES_END = rf"{_SIGNS_AND_SLASHES}|{_END}"
_BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|\p{{N}}|{_SIGNS}|\s*[\r\n]|{_BLANKS}"
)
_QWEN35 = (
    rf"{_CONTRACTION}|{_LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_END}"
)
_EXAONE_MOE = (
    rf"{_CONTRACTION}|{_LEAD}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|{_BLANKS}"
)

_BY_DIGIT = PreType((r"\p{N}", _GPT2))
_WORDS = PreType((_GPT2,))
_LLAMA3_WORDS = PreType((_LLAMA3,), whole_words=True, adds_bos=True)
_QWEN2_WORDS = PreType((_QWEN2,))
_DEEPSEEK3 = PreType(
    (r"\p{N}{1,3}", _CJK, rf"{_MARKED}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_END}"),
)
_GPT4O = PreType((rf"{_CASED_CONTRACTED}|\p{{N}}{{1,3}}|{_SLASHES_END}",))
_DEFAULT = PreType((rf"[\p{{P}}{_OPERATORS}]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))

PRE_TYPES: Mapping[str | None, PreType] = {
    **dict.fromkeys((None, "default"), _DEFAULT),
    **dict.fromkeys(
        (
            *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
            "mellum2",
        ),
        _BY_DIGIT,
    ),
    **dict.fromkeys(
        (
            *("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo"),
            *("jais", "trillion", "granite-docling", "exaone4"),
        ),
        _WORDS,
    ),
    **dict.fromkeys(
        (
            *("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0"),
            "lfm2",
        ),
        _LLAMA3_WORDS,
    ),
    **dict.fromkeys(
        ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"),
        replace(_LLAMA3_WORDS, whole_words=False, adds_bos=False),
    ),
    **dict.fromkeys(
        (
            *("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "grok-2"),
            "solar-open",
        ),
        _QWEN2_WORDS,
    ),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), _DEEPSEEK3),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2"), _GPT4O),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), PreType((_BAILING,))),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), PreType((_SENTENCE_ENDS,))),
    "viking": PreType((_SENTENCE_ENDS, r"\p{N}")),
    "falcon": PreType((rf"[\p{{P}}{_OPERATORS}`]+", _GPT2, "[0-9][0-9][0-9]")),
    "deepseek-coder": PreType(
        (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}")
    ),
    "qwen35": PreType((_QWEN35,)),
    "tekken": PreType(
        (rf"{_CASED}|\p{{N}}|{_SLASHES_END}",),
        whole_words=True,
        adds_bos=True,
    ),
    "seed-coder": PreType((rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_END}",)),
    "exaone-moe": PreType((_EXAONE_MOE,)),
    "minicpm5": PreType(
        (r"\p{N}{1,3}", rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_SIGNS}|{_END}"), whole_words=True
    ),
    "laguna": PreType((r"[^\n]+|[\n]+", _QWEN2)),
}
"""By the name in ``tokenizer.ggml.pre``; a file without one is cut as "default"."""
