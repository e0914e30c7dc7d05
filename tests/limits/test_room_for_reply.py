"""Has the reply the room that it asks for, and does it fit where it is counted?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Bypassed, Edited
from kvagent.limits import with_reply
from tests.limits.windows import GOOD, HISTORY, SIZE, Window
from tests.scripted import Scripted, Served, refused, tokens_of
from tests.wire import say


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_the_reply_has_the_room_it_asks_for(key: str) -> None:
    """A server such as vLLM refuses what would not fit together."""
    window, reply = SIZE + 100, 2_000
    scripted = Scripted(window=window, evict=None)
    options: dict[str, Any] = {key: reply}
    scripted.send(HISTORY, **options)
    assert tokens_of(scripted.bodies[0]) + reply <= window
    scripted = Scripted(window=window + 2_500, evict=None)
    scripted.send(HISTORY, **options)
    assert scripted.last == HISTORY


class Counting(Window):
    """A server that counts what the reply may take, and refuses in the words of vLLM."""

    def __init__(self, window: int, key: str) -> None:
        super().__init__(window)
        self.key = key

    def __call__(self, body: dict[str, Any]) -> Served:
        prompt, reply = tokens_of(body), body[self.key]
        if prompt + reply > self.window:
            self.refusals += 1
            return refused(
                f"This model's maximum context length is {self.window} tokens. However, you "
                f"requested {reply} output tokens and your prompt contains {prompt} input tokens, "
                f"for a total of {prompt + reply} tokens. Please reduce the length."
            )
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 3})


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8, 1.0, 3.0])
def test_a_reply_that_is_counted_fits_as_well(share: float, key: str) -> None:
    """Half the window at most is left to it, and this from the first refusal on."""
    scripted, server = Scripted(), Counting(SIZE, key)
    options: dict[str, Any] = {key: int(share * SIZE)}
    messages = list(HISTORY)
    for question in ("And?", "So?", "Well?"):
        assert scripted.send(messages, server, **options).reply == GOOD
        messages += [GOOD, say("user", question)]
    assert server.refusals == 1
    assert scripted.bodies[0][key] == int(share * SIZE)
    assert all(body[key] == min(int(share * SIZE), SIZE // 2) for body in scripted.bodies[1:])
    assert not scripted.of(Bypassed)
    told = [edit for edit in scripted.of(Edited) if edit.stage == "reply"]
    assert len(told) == (3 if share > 0.5 else 0)


@pytest.mark.parametrize("mode", ["observe", "safe"])
def test_only_full_mode_asks_for_a_shorter_reply(mode: str) -> None:
    scripted, server = Scripted(mode=mode), Counting(SIZE, "max_tokens")
    for _ in range(2):
        assert scripted.send(HISTORY, server, max_tokens=SIZE).status == 400
    assert [body["max_tokens"] for body in scripted.bodies] == [SIZE, SIZE]


def test_a_server_that_counts_no_reply_is_asked_for_all_of_it() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Window(SIZE // 2), max_tokens=10 * SIZE)
    assert [body["max_tokens"] for body in scripted.bodies] == [10 * SIZE, 10 * SIZE]


@pytest.mark.parametrize(
    ("body", "limited"),
    [
        (b'{"max_tokens":900,"n":1}', b'{"max_tokens":50,"n":1}'),
        (b'{"max_tokens" : 900 }', b'{"max_tokens" : 50 }'),
        (b'{"max_tokens":50}', b'{"max_tokens":50}'),
        (b'{"max_tokens":null}', b'{"max_tokens":null}'),
        (b'{"n":1}', b'{"n":1}'),
        (
            b'{"messages":[{"role":"user","content":"\\"max_tokens\\":900"}],"max_tokens":900}',
            b'{"messages":[{"role":"user","content":"\\"max_tokens\\":900"}],"max_tokens":50}',
        ),
        (
            b'{"tools":[{"max_tokens":900}],"max_tokens":900}',
            b'{"tools":[{"max_tokens":900}],"max_tokens":900}',
        ),
        (
            b'{"tools":[{"max_tokens":9001}],"max_tokens":900}',
            b'{"tools":[{"max_tokens":9001}],"max_tokens":50}',
        ),
    ],
)
def test_only_what_is_asked_for_of_the_reply_is_changed(body: bytes, limited: bytes) -> None:
    assert with_reply(body, json.loads(body), 50) == limited
    assert with_reply(body, json.loads(body), None) == body
