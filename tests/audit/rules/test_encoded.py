"""Is base64 told from everything that only looks like it?"""

from __future__ import annotations

import base64
import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.rules.encoded import base64_in
from tests.audit.logs import SYSTEM, call, request, result, user
from tests.audit.rules.audited import finding, findings


def encoded(size: int, seed: int = 1) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def in_lines(text: str, width: int = 76) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (encoded(3_000), 0),
        (f"The picture: data:image/png;base64,{encoded(3_000)} is here.", 35),
        (f'{{"data": "{encoded(3_000)}"}}', 10),
        (f"-----BEGIN FILE-----\n{in_lines(encoded(3_000))}\n-----END FILE-----", 21),
        (f"header\n{in_lines(encoded(3_000), 64)}\n", 7),
    ],
)
def test_encoded_files(text: str, at: int) -> None:
    found = base64_in(text)
    assert found is not None
    assert found[0] == at
    assert abs(found[1] - 4_000) < 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "word " * 1_000,
        "a" * 5_000,
        "=" * 5_000,
        "-" * 5_000,
        "ACGT" * 1_000,
        "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(60)),
        "\n".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(200)),
        "/usr/lib/python3/dist-packages/" * 100,
        "getValueOfTheThing" * 100,
        " ".join(encoded(60, n) for n in range(50)),
        encoded(300),
        "gAAAAABp4W" + encoded(3_000),
        "\n".join("x" * 76 for _ in range(50)),
    ],
)
def test_what_is_none(text: str) -> None:
    assert base64_in(text) is None


@given(st.binary(min_size=800, max_size=4_000), st.text(max_size=40), st.text(max_size=40))
def test_random_bytes_are_found_in_any_text(data: bytes, before: str, after: str) -> None:
    noise = random.Random(data).randbytes(1_000)
    text = f"{before} {base64.b64encode(noise + data).decode()} {after}"
    found = base64_in(text)
    assert found is not None
    assert found[0] >= len(before)


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    base64_in(text * 50)


def test_a_result_with_a_file() -> None:
    text = f"Screenshot: {encoded(6_000)}"
    log = [request([SYSTEM, user("look"), call("read", "a"), result(text, "a")])]
    (spot,) = finding(log, "KVA504").spots
    assert (spot.message, spot.field, spot.character) == (3, "content", 12)
    assert spot.tokens > 1_000


def test_arguments_with_a_file() -> None:
    arguments = f'{{"path": "a.png", "data": "{encoded(6_000)}"}}'
    log = [request([SYSTEM, user("look"), call("write", "a", arguments), result("done", "a")])]
    (spot,) = finding(log, "KVA504").spots
    assert spot.field == "tool_calls[0].function.arguments"


def test_a_picture_part_is_none() -> None:
    url = f"data:image/png;base64,{encoded(6_000)}"
    message = {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": url}},
        ],
    }
    assert not findings([request([SYSTEM, message])], "KVA504")
