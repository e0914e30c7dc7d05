"""Is data that nobody reads told in few words, and are values left alone?"""

from __future__ import annotations

import hashlib
from base64 import b64encode, urlsafe_b64encode
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import blob, shorten
from kvagent.shorten.result import count_lines


def data(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


def encoded(size: int, seed: int = 1) -> str:
    return b64encode(data(size, seed)).decode()


def test_kind_size_checksum_and_both_ends_are_told() -> None:
    content = b"\x89PNG\r\n\x1a\n" + data(9_000)
    written = b64encode(content).decode()
    text = f"Screenshot: data:image/png;base64,{written} taken"
    shortened = shorten(text, 1000, handle="r3")
    checksum = hashlib.sha256(content).hexdigest()[:12]
    assert f"[image/png, {len(content)} bytes of base64, sha256 {checksum}: " in shortened.text
    assert written[:100] in shortened.text
    assert shortened.text.endswith(f"{written[-50:]}] taken")
    assert not shortened.lossless
    assert shortened.kept + shortened.dropped == len(text)
    assert shortened.unit == "characters"


@pytest.mark.parametrize(
    ("begin", "kind"),
    [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"%PDF-1.7", "application/pdf"), (b"\x1f\x8b\x08", "application/gzip"),
     (b"PK\x03\x04", "application/zip"), (b"\xff\xd8\xff\xe0", "image/jpeg")],
)  # fmt: skip
def test_well_known_kinds(begin: bytes, kind: str) -> None:
    text = b64encode(begin + data(5000)).decode()
    assert f"[{kind}, {len(begin) + 5000} bytes" in shorten(text, 800).text


def test_hexadecimal() -> None:
    text = "key: " + data(3000).hex() + "\n"
    assert "3000 bytes of hex, sha256 " + hashlib.sha256(data(3000).hex().encode()).hexdigest()[
        :12
    ] in (shorten(text, 800).text)


def test_wrapped_as_in_a_mail() -> None:
    whole = encoded(6000)
    wrapped = "\n".join(whole[at : at + 76] for at in range(0, len(whole), 76))
    text = f"Content-Transfer-Encoding: base64\n\n{wrapped}\n\n-- end"
    shortened = shorten(text, 900)
    assert (
        f"6000 bytes of base64, sha256 {hashlib.sha256(data(6000)).hexdigest()[:12]}"
        in shortened.text
    )
    assert shortened.text.endswith("-- end")


def test_tokens_and_signed_urls_are_values() -> None:
    part = urlsafe_b64encode(data(700)).decode().rstrip("=")
    token = f"eyJhbGciOiJIUzI1NiJ9.{part}.{part[:300]}"
    url = f"https://bucket.example.org/file?X-Signature={part}{part}"
    text = f"token: {token}\nurl: {url}\nimage: {encoded(20_000)}\n"
    shortened = shorten(text, 6000)
    assert token in shortened.text
    assert url in shortened.text
    assert "20000 bytes of base64" in shortened.text


def test_what_is_short_or_no_data_stays() -> None:
    for text in (
        f"checksum {encoded(150)}\n" + "a line of words\n" * 200,
        "-" * 3000 + "\n" + "=" * 3000,
        "A" * 5000,
        "/".join(f"folder_{n}" for n in range(900)),
        "x = " + "abc" * 2000,
        "word " * 2000,
    ):
        assert blob.shorten(text, 500) is None


def test_the_text_around_is_shortened_too() -> None:
    lines = [f"line {n} of src/module_{n}.py" for n in range(400)]
    lines[200] = f"image {encoded(30_000)} end"
    text = "\n".join(lines)
    shortened = shorten(text, 2000, handle="r1")
    assert shortened.unit == "lines"
    assert shortened.kept + shortened.dropped == 400
    assert "1 blob folded" in shortened.text.split("\n")[0]
    standing = set(shortened.text.split("\n"))
    assert sum(line in standing for line in lines) == shortened.kept


parts = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.builds(encoded, st.integers(1, 2000), st.integers(0, 9)),
        st.builds(lambda n: data(n).hex(), st.integers(1, 900)),
        st.sampled_from(
            ["\n", " ", "data:image/png;base64,", ".", "https://a.b/c?d=", '"', "word "]
        ),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(parts, st.integers(200, 3000))
def test_any_mixture(mixture: list[str], budget: int) -> None:
    text = "".join(mixture)
    shortened = blob.shorten(text, budget, handle="r1")
    if shortened is not None and len(shortened.text) <= budget:
        total = len(text) if shortened.unit == "characters" else count_lines(text)
        assert shortened.kept + shortened.dropped == total
        assert shortened.kept >= 0
        assert shortened == blob.shorten(text, budget, handle="r1")
    result = shorten(text, budget, handle="r1")
    assert len(result.text) <= min(budget, len(text))
    assert shorten(result.text, budget).text == result.text
