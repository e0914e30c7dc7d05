"""Which ids does byte-level byte-pair encoding give to a text without special tokens?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvagent.tokens.pre_types import PreType
from kvagent.tokens.tokenizer import TokenizerError

if TYPE_CHECKING:
    import tokenizers


class ByteLevel:
    """Words cut as a `PreType` says, each merged up from its bytes by rank.

    Args:
        vocabulary: token → id, the bytes of a token written as GPT-2 writes them.
        merges: the pairs that are merged, the first rank first, each with a blank between.
        pre: how words are cut.

    Raises:
        TokenizerError: vocabulary and merges do not fit together.
    """

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[str], pre: PreType) -> None:
        from tokenizers import pre_tokenizers

        self._size = max(vocabulary.values(), default=-1) + 1
        lacking = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - vocabulary.keys())
        self._lacks = bool(lacking)
        # A byte without a token is dropped, but keeps its neighbours apart: it gets an id for the
        # time of merging.
        ids = {**vocabulary, **{letter: self._size + at for at, letter in enumerate(lacking)}}
        self._tokenizer = _build(ids, merges, pre)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; a byte that the vocabulary lacks has none."""
        if len(texts) == 1:  # without the threads of the library
            encoded = [self._tokenizer.encode(texts[0], add_special_tokens=False)]
        else:
            encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        if not self._lacks:
            return [each.ids for each in encoded]
        return [[one for one in each.ids if one < self._size] for each in encoded]


def _build(ids: Mapping[str, int], merges: Sequence[str], pre: PreType) -> tokenizers.Tokenizer:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    pairs = [(left, right) for left, _, right in map(_pair, merges)]
    try:
        tokenizer = Tokenizer(models.BPE(dict(ids), pairs, ignore_merges=pre.whole_words))
    except Exception as error:  # the library raises nothing narrower
        raise TokenizerError(f"the vocabulary and its merges do not fit: {error}") from error
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(one), "isolated") for one in pre.expressions),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def _pair(merge: str) -> tuple[str, str, str]:
    """The first token may begin with a blank, in vocabularies that are not byte-level."""
    at = merge.find(" ", 1)
    return merge[:at], " ", merge[at + 1 :]
