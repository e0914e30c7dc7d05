"""Are a GGUF's ids those of llama.cpp, whatever kind of vocabulary it holds?"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.gguf import GGUF
from kvagent.tokens.gguf_tokenizer import GGUFTokenizer
from kvagent.tokens.pre_types import PRE_TYPES
from kvagent.tokens.tokenizer import TokenizerError
from tests.tokens.gguf_files import tiny_llama, write_gguf
from tests.tokens.llamacpp import Running, running, smollm2

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

TEXTS = (
    "Hello world",
    "  a  b\r\n\r\n12345 678",
    "'s 'S don't DON'T I'LL we'Ve I'd",
    "1234567890123 ½ Ⅷ ٣٤",
    "\n\n\n \n\t x",
    "a/b//\n\nc ... !!\n\n",
    "ABCdefGHI jKl camelCase XMLHttp",
    "é ß Ñ É e\u0301 a\u0300b 日本語 中文字ひカ 한국어 ▁x",
    '{"a": [1, 2.5], "b": "x\\ny"} <|im_start|>user<|im_end|>',
    "😀\u200d😀 \u00a0x\u2028y\u3000z \u0085",
    "`$|<>=+~^# $x += 1 % 2 & 3;",
    "«x» — “y” …。，、",
    "",
    " ",
)

ALPHABET = [chr(at) for at in (*range(33, 127), *range(161, 173), *range(174, 256))]
ALPHABET += [chr(256 + at) for at in range(256 - len(ALPHABET))]
"""A letter for each byte, as GPT-2 has them."""

TRICKY = st.sampled_from(
    "abcABC''sStTmMdDrRvVlL 0123456789\n\r\t  ▁éÉßñ中文字ひカ한글😀\u0301\u0300\"`.,!?;:{}[]()<>_-=+/\\|$^~%&#@*"
    "…。，\u00a0\u2028\u3000٣½²Ⅷǅʰ\u200d\u0085\u00ad–—«»€©"
)

ONE_OF_EACH = [
    *{id(pre): name for name, pre in PRE_TYPES.items() if name is not None}.values(),
]
"""Names that stand for the same way to cut need one test."""


def spm_vocabulary() -> tuple[list[str], list[float], list[int]]:
    """A small vocabulary with scores: bytes, letters, words, and specials that overlap."""
    words = [
        "▁",
        "a",
        "b",
        "c",
        "d",
        "e",
        "▁▁",
        "▁a",
        "ab",
        "abc",
        "bc",
        "cd",
        "bcd",
        "▁ab",
        "▁abc",
    ]
    words += ["de", "cde", "é", "▁é", "日", "日本", "\n", "\n\n", "▁▁▁▁", "aa", "aaa", "aaaa", "😀"]
    special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), ("<a>", USER_DEFINED)]
    special += [("<ab>", USER_DEFINED), ("[ab", USER_DEFINED), ("b][", CONTROL)]
    of_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = [*(each for each, _ in special), *of_bytes, *words]
    scores = [0.0] * (len(special) + 256) + [-float(at * 7 % 11) for at in range(len(words))]
    kinds = [kind for _, kind in special] + [BYTE] * 256 + [NORMAL] * len(words)
    return tokens, scores, kinds


def sentence_piece(**more: Any) -> dict[str, Any]:
    tokens, scores, kinds = spm_vocabulary()
    own = {f"tokenizer.ggml.{key}": value for key, value in more.items()}
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **own,
    }


@cache
def common_words() -> dict[str, Any]:
    """The beginning of SmolLM2's vocabulary, and the merges that make it: it loads at once."""
    metadata = GGUF.read(smollm2()).metadata
    kept = {key: value for key, value in metadata.items() if key.startswith("tokenizer.ggml")}
    tokens = kept["tokenizer.ggml.tokens"] = kept["tokenizer.ggml.tokens"][:5000]
    kept["tokenizer.ggml.token_type"] = kept["tokenizer.ggml.token_type"][:5000]
    known = frozenset(tokens)
    kept["tokenizer.ggml.merges"] = [
        merge
        for merge in kept["tokenizer.ggml.merges"]
        if known.issuperset(merge.split(" ")) and merge.replace(" ", "") in known
    ]
    return kept


def letters(**more: Any) -> dict[str, Any]:
    """A byte-level vocabulary that merges nearly nothing."""
    tokens = ["<|endoftext|>", "<|im_start|>", *ALPHABET, "Hi"]
    kinds = [CONTROL, CONTROL] + [NORMAL] * (len(tokens) - 2)
    own = {f"tokenizer.ggml.{key}": value for key, value in more.items() if value is not None}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": ["H i"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
        **own,
    }


def byte_level(**more: Any) -> dict[str, Any]:
    """Common words; ``None`` takes a key out."""
    kept = dict(common_words())
    kept |= {f"tokenizer.ggml.{key}": value for key, value in more.items()}
    return {key: value for key, value in kept.items() if value is not None}


def made(folder: Path, tokenizer: dict[str, Any]) -> tuple[GGUFTokenizer, Path]:
    path = tiny_llama(folder / "tiny.gguf", tokenizer)
    return GGUFTokenizer(GGUF.read(path)), path


def agree(tokenizer: GGUFTokenizer, server: Running, *texts: str) -> None:
    """With and without what is added at the ends."""
    ours = [token for ids in tokenizer.encode_all(texts) for token in ids]
    theirs = server.encode(*texts)
    for text in texts if ours != theirs else ():
        assert tokenizer.encode(text) == server.encode(text), text
    assert ours == theirs
    for text in texts[:3]:
        assert tokenizer.encode(text, add_special=True) == server.encode(text, add_special=True)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_way_to_cut_words(tmp_path: Path, name: str) -> None:
    tokenizer, path = made(tmp_path, byte_level(pre=name, add_bos_token=None))
    with running(path) as server:
        agree(tokenizer, server, *TEXTS)


@pytest.mark.parametrize("name", ["llama-bpe", "qwen2", "deepseek-v3", "gpt-4o"])
def test_any_text_in_the_most_used_ways(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    tokenizer, path = made(tmp_path_factory.mktemp("pre"), byte_level(pre=name))
    with running(path) as server:

        @settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
        @given(st.lists(st.text(TRICKY, max_size=40), min_size=30, max_size=60))
        def any_text(texts: list[str]) -> None:
            agree(tokenizer, server, *texts)

        any_text()


SPM = st.lists(
    st.one_of(
        st.sampled_from(["<s>", "</s>", "<a>", "<ab>", "[ab", "b][", "[ab][", "<unk>", "<0x41>"]),
        st.text(st.sampled_from("aaabcde  ▁é日本\n😀x"), max_size=12),
    ),
    max_size=6,
).map("".join)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"add_space_prefix": False},
        {"add_bos_token": False},
        {"add_eos_token": True, "add_bos_token": True},
    ],
    ids=str,
)
def test_sentence_piece(tmp_path_factory: pytest.TempPathFactory, more: dict[str, Any]) -> None:
    tokenizer, path = made(tmp_path_factory.mktemp("spm"), sentence_piece(**more))
    with running(path) as server:
        agree(tokenizer, server, "abc", " abc", "", "<s>abc", "a<ab>b</s> c", "[ab][ab][", "é日本")

        @settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
        @given(st.lists(SPM, min_size=20, max_size=40))
        def any_text(texts: list[str]) -> None:
            agree(tokenizer, server, *texts)

        any_text()


@pytest.mark.parametrize("adds_bos", [None, False, True])
@pytest.mark.parametrize("adds_eos", [None, True])
@pytest.mark.parametrize("pre", ["smollm", "llama-bpe"])
def test_what_is_added_at_the_ends(
    tmp_path: Path, adds_bos: bool | None, adds_eos: bool | None, pre: str
) -> None:
    metadata = letters(pre=pre, add_bos_token=adds_bos, add_eos_token=adds_eos)
    tokenizer, path = made(tmp_path, metadata)
    with running(path) as server:
        agree(tokenizer, server, "Hi", "", "<|im_start|>Hi")
    bos, eos = tokenizer.token("bos"), tokenizer.token("eos")
    adds = (pre == "llama-bpe") if adds_bos is None else adds_bos
    assert tokenizer.edges.first == (bos if adds else "")
    assert tokenizer.edges.last == (eos if adds_eos else "")


class TestErrors:
    """Each says what to pass instead."""

    def read(self, tmp_path: Path, metadata: dict[str, Any]) -> None:
        GGUFTokenizer(GGUF.read(write_gguf(tmp_path / "bad.gguf", metadata)))

    def test_no_tokenizer(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match=r"no tokenizer.*Hugging Face folder"):
            self.read(tmp_path, {"general.architecture": "llama"})

    def test_an_unknown_kind(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match=r"'rwkv'.*Hugging Face folder"):
            self.read(tmp_path, sentence_piece(model="rwkv"))

    def test_an_unknown_way_to_cut(self, tmp_path: Path) -> None:
        own = {"model": "gpt2", "pre": "kimi-k2", "merges": ["a b"]}
        with pytest.raises(TokenizerError, match=r"'kimi-k2'.*Hugging Face folder"):
            self.read(tmp_path, sentence_piece(**own))

    def test_no_scores(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match="no scores"):
            self.read(tmp_path, sentence_piece(scores=[0.0]))

    def test_merges_that_do_not_fit(self, tmp_path: Path) -> None:
        own = {"model": "gpt2", "pre": "gpt-2", "merges": ["nowhere todd"]}
        with pytest.raises(TokenizerError, match="do not fit"):
            self.read(tmp_path, sentence_piece(**own))

    @pytest.mark.parametrize("metadata", [sentence_piece()])
    def test_half_a_surrogate_pair(self, tmp_path: Path, metadata: dict[str, Any]) -> None:
        tokenizer, _ = made(tmp_path, metadata)
        with pytest.raises(TokenizerError, match="surrogate"):
            tokenizer.encode("a\ud83d")
