"""Which ids does the tokenizer inside a GGUF file give to a text?

As llama.cpp tokenises: special tokens first, then what lies between them, by the file's kind of
vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvagent.backends.prompt import Edges
from kvagent.gguf import GGUF
from kvagent.tokens.byte_level import ByteLevel
from kvagent.tokens.pre_types import PRE_TYPES
from kvagent.tokens.specials import Specials
from kvagent.tokens.tokenizer import TokenizerError

# Kinds of tokens, in ``tokenizer.ggml.token_type``.
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4

_INSTEAD = "pass the model's Hugging Face folder (it has a tokenizer.json) instead"


class GGUFTokenizer:
    """The tokenizer of one GGUF file; safe in threads.

    Raises:
        TokenizerError: the file has no tokenizer, or one of a kind that is not known here.
    """

    def __init__(self, gguf: GGUF) -> None:
        self.name = f"tokenizer of {gguf.path.name}"
        self._of = gguf.path
        self._metadata = gguf.metadata
        self.tokens: list[str] = self._read("tokens") or []
        if not self.tokens:
            raise TokenizerError(f"{gguf.path} holds no tokenizer: {_INSTEAD}")
        kind = self._read("model")
        build = _KINDS.get(kind)
        if build is None:
            raise TokenizerError(
                f"{gguf.path} has a tokenizer of the kind {kind!r}, which is not known here: "
                f"{_INSTEAD}"
            )
        ids = {token: at for at, token in enumerate(self.tokens)}
        self._plain, adds_bos = build(self, ids)
        self._specials = Specials(dict(self._special(ids)))
        self._bos = self._edge("bos", default=adds_bos)
        self._eos = self._edge("eos", default=False)
        self.edges = Edges(
            *("".join(map(self.tokens.__getitem__, edge)) for edge in (self._bos, self._eos))
        )

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        """The ids of ``text``, special tokens in it included.

        ``add_special`` adds what llama.cpp adds to a prompt of this model, bos most of all.
        """
        ids = list(self._bos) if add_special else []
        for piece in self._specials.split(text):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += self._plain(piece)
        return ids + list(self._eos) if add_special else ids

    def token(self, name: str) -> str | None:
        """The text of a named token, ``bos`` or ``eos``; ``None`` if the model has none."""
        at = self._read(f"{name}_token_id")
        return self.tokens[at] if isinstance(at, int) and at < len(self.tokens) else None

    def _read(self, key: str) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{key}")

    def _special(self, ids: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        kinds = self._read("token_type") or []
        for (token, at), kind in zip(ids.items(), kinds, strict=False):
            if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED):
                yield token, at

    def _edge(self, name: str, *, default: bool) -> tuple[int, ...]:
        adds = self._read(f"add_{name}_token")
        at = self._read(f"{name}_token_id")
        return (at,) if (default if adds is None else adds) and isinstance(at, int) else ()

    def _byte_level(self, ids: Mapping[str, int]) -> tuple[Callable[[str], list[int]], bool]:
        name = self._read("pre")
        pre = PRE_TYPES.get(name)
        if pre is None:
            raise TokenizerError(
                f"{self._of} cuts words as {name!r}, which is not known here: {_INSTEAD}"
            )
        return ByteLevel(ids, self._read("merges") or [], pre).encode, pre.adds_bos


_KINDS: Mapping[
    Any, Callable[[GGUFTokenizer, Mapping[str, int]], tuple[Callable[[str], list[int]], bool]]
] = {"gpt2": GGUFTokenizer._byte_level}
