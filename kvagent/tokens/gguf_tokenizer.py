"""Which ids does the tokenizer inside a GGUF file give to a text?

As llama.cpp tokenises: special tokens first, then what lies between them, by the file's kind of
vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kvagent.backends.prompt import Edges
from kvagent.gguf import GGUF
from kvagent.tokens.byte_level import ByteLevel
from kvagent.tokens.pre_types import PRE_TYPES
from kvagent.tokens.sentencepiece import SentencePiece
from kvagent.tokens.specials import Specials
from kvagent.tokens.tokenizer import TokenizerError

# Kinds of tokens, in ``tokenizer.ggml.token_type``.
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4

# Tokens that end something are special, whatever the file says of them.
_ENDS = frozenset(
    {
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>"),
        *("<|flush|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>"),
        *("[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>"),
        *("<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["),
    }
)

_INSTEAD = "pass the model's Hugging Face folder (it has a tokenizer.json) instead"


class GGUFTokenizer:
    """The tokenizer of one GGUF file; safe in threads.

    Raises:
        TokenizerError: the file has no tokenizer, or one of a kind that is not known here.
    """

    def __init__(self, gguf: GGUF) -> None:
        self.name = f"tokenizer of {gguf.path.name}"
        self._gguf = gguf
        self._tokens: list[str] = [
            token or f"[EMPTY_{at}]" for at, token in enumerate(self._read("tokens") or ())
        ]
        if not self._tokens:
            raise TokenizerError(f"{gguf.path} holds no tokenizer: {_INSTEAD}")
        kind = self._read("model")
        if kind not in _KINDS:
            raise TokenizerError(
                f"{gguf.path} has a tokenizer of the kind {kind!r}, which is not known here: "
                f"{_INSTEAD}"
            )
        build, self._defaults = _KINDS[kind]
        ids = {token: at for at, token in enumerate(self._tokens)}
        self._plain, adds_bos = build(self, ids)
        special = dict(self._special())
        self._specials = Specials(special, self._swallowing(special))
        self._bos = self._edge("bos", default=adds_bos)
        self._eos = self._edge("eos", default=False)
        self.edges = Edges(
            *("".join(self._tokens[at] for at in edge) for edge in (self._bos, self._eos))
        )

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        """The ids of ``text``, special tokens in it included.

        ``add_special`` adds what llama.cpp adds to a prompt of this model, bos most of all.
        """
        (ids,) = self.encode_all([text])
        return [*self._bos, *ids, *self._eos] if add_special else ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """``encode`` of each text; what lies between special tokens is encoded in one go."""
        try:
            cut = [list(self._specials.split(text)) for text in texts]
            plain = [
                (piece, not at or isinstance(pieces[at - 1], int))
                for pieces in cut
                for at, piece in enumerate(pieces)
                if isinstance(piece, str)
            ]
            encoded = iter(self._plain(plain))
        except (TypeError, UnicodeError) as error:
            raise TokenizerError("the text is no text: it holds half a surrogate pair") from error
        return [
            [
                each
                for piece in pieces
                for each in ((piece,) if isinstance(piece, int) else next(encoded))
            ]
            for pieces in cut
        ]

    def token(self, name: str) -> str | None:
        """The text of a named token, ``bos`` or ``eos``; ``None`` if the model has none."""
        at = self._id(name)
        return None if at is None else self._tokens[at]

    def _id(self, name: str) -> int | None:
        at = self._read(f"{name}_token_id")
        if not isinstance(at, int) or at >= len(self._tokens):
            at = self._defaults.get(name)
        return at if at is not None and at < len(self._tokens) else None

    def _read(self, key: str) -> Any:
        return self._gguf.metadata.get(f"tokenizer.ggml.{key}")

    def _special(self) -> Iterator[tuple[str, int]]:
        kinds = self._read("token_type") or []
        ends = _ENDS
        if "<|tool_response>" in self._tokens:
            ends = ends - {"</s>"}  # there it is plain text
        for at, token in enumerate(self._tokens):
            kind = kinds[at] if at < len(kinds) else None
            if token in ends or (
                kind in (_UNKNOWN, _CONTROL, _USER_DEFINED) and token not in _ENDS - ends
            ):
                yield token, at

    def _swallowing(self, special: Mapping[str, int]) -> set[int]:
        """Phi-3's special tokens take the blanks behind them along."""
        name = str(self._gguf.metadata.get("general.name", "")).lower()
        if "phi-3" not in name and "phi3" not in name:
            return set()
        kept = ("<unk>", "<s>", "<|endoftext|>")
        return {at for token, at in special.items() if token not in kept}

    def _edge(self, name: str, *, default: bool) -> tuple[int, ...]:
        adds = self._read(f"add_{name}_token")
        at = self._id(name)
        return (at,) if (default if adds is None else adds) and at is not None else ()

    def _byte_level(self, ids: Mapping[str, int]) -> tuple[_Plain, bool]:
        name = self._read("pre")
        if name not in PRE_TYPES:
            raise TokenizerError(
                f"{self._gguf.path} cuts words as {name!r}, which is not known here: {_INSTEAD}"
            )
        pre = PRE_TYPES[name]
        words = ByteLevel(ids, self._read("merges") or [], pre)
        return lambda texts: words.encode_all([text for text, _ in texts]), pre.adds_bos

    def _sentence_piece(self, ids: Mapping[str, int]) -> tuple[_Plain, bool]:
        scores = self._read("scores")
        if not scores or len(scores) < len(self._tokens):
            raise TokenizerError(f"{self._gguf.path} has no scores for its tokens: {_INSTEAD}")
        pieces = SentencePiece(ids, scores)
        before = "" if self._read("add_space_prefix") is False else " "
        return lambda texts: [
            pieces.encode(f"{before}{text}" if first else text) for text, first in texts
        ], True


_Plain = Callable[[Sequence[tuple[str, bool]]], list[list[int]]]
"""Texts without special tokens, each with whether it stands at the beginning or behind one."""

_KINDS: Mapping[
    Any,
    tuple[Callable[[GGUFTokenizer, Mapping[str, int]], tuple[_Plain, bool]], Mapping[str, int]],
] = {
    "gpt2": (GGUFTokenizer._byte_level, {"bos": 11, "eos": 11}),
    "llama": (GGUFTokenizer._sentence_piece, {"bos": 1, "eos": 2}),
}
"""By ``tokenizer.ggml.model``: how it is built, and the ids of its edges where it names none."""
