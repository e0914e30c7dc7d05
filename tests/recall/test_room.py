"""Is only so much told as there is room for, and the model told how to have the rest?"""

from __future__ import annotations

import json
from typing import Any

from kvagent import Recall
from kvagent.events import Overflowed
from tests.recall.asking import (
    FINAL,
    LONG,
    TOOLS,
    Model,
    asks,
    asks_all,
    handle_in,
    history,
    recalling,
    told,
)
from tests.scripted import Scripted, Served, refused, tokens_of
from tests.wire import kept, say


def test_a_long_original_comes_piece_by_piece() -> None:
    """Each piece says what to ask for next, so that all of it can be had."""
    scripted = recalling(max_calls=60, max_tokens=1_000)
    pieces: list[str] = []

    def model(body: dict[str, Any]) -> Served:
        answer = body["messages"][-1]
        part: dict[str, Any] = {}
        if answer.get("tool_call_id") == "ask-1":
            note, _, piece = answer["content"].partition("\n")
            if not note.startswith("[kvagent: "):
                pieces.append(answer["content"])
                return Served(FINAL)
            pieces.append(piece)
            part = {"lines": note.split('lines="')[1].split('"')[0]}
        return Served(asks(handle_in(body["messages"]), **part))

    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    assert "\n".join(pieces) == LONG
    assert len(pieces) > 5


def test_a_long_line_is_told_as_far_as_it_goes() -> None:
    long = json.dumps([{"id": n, "name": f"row {n}"} for n in range(4_000)])
    scripted = recalling(max_tokens=500)
    assert scripted.send(history(long), Model(asks_all, FINAL), tools=TOOLS).reply == FINAL
    assert 200 < len(told(scripted)[0]) < 4_000
    assert "row 1" in told(scripted)[0]


def test_many_lines_found_say_how_many_there_are() -> None:
    scripted = recalling(max_tokens=500)
    model = Model(lambda handle: asks(handle, query="job"), FINAL)
    scripted.send(history(), model, tools=TOOLS)
    first, *lines = told(scripted)[0].split("\n")
    assert f"the first {len(lines)} of 900 lines found" in first
    assert lines[0].startswith("1:line 1: job")


def test_only_so_much_is_told_as_the_window_has_room_for() -> None:
    scripted = Scripted(recall=Recall(), window=4_000)
    assert scripted.send(history(), Model(asks_all, FINAL), tools=TOOLS).reply == FINAL
    assert 500 < len(told(scripted)[0]) < len(LONG) / 2
    assert max(map(tokens_of, scripted.bodies)) < 4_000


def test_where_there_is_no_room_the_model_is_told_so() -> None:
    scripted = Scripted(recall=Recall(), window=2_000)
    full = {"prompt_tokens": 1_890, "completion_tokens": 10}
    assert scripted.send(history(), Model(asks_all, FINAL, usage=full), tools=TOOLS).reply == FINAL
    assert "there is no room for so much now" in told(scripted)[0]


def test_a_text_that_does_not_fit_after_all_is_taken_back() -> None:
    """Nobody knew how large the window is."""
    scripted = recalling()

    def server(body: dict[str, Any]) -> Served:
        prompt = tokens_of(body)
        if prompt > 3_000:
            message = f"request ({prompt} tokens) exceeds the available context size (3000 tokens)"
            return refused(message)
        asked = len(body["messages"]) == 4
        return Served(asks(handle_in(body["messages"])) if asked else FINAL)

    assert scripted.send(history(), server, tools=TOOLS).reply == FINAL
    assert len(scripted.bodies) == 3
    assert "there is no room for so much now" in told(scripted)[0]
    assert len(scripted.of(Overflowed)) == 1
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[2], scripted.bodies[3])
