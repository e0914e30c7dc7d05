"""What is a running server asked, and what is made of its answers?"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import pytest

from kvagent.backends import Fetch, Fetched, Server
from kvagent.backends.prompt import PromptError
from kvagent.tokens.server import ServerTokens
from tests.tokens.chats import TOOLS, Body, reply, user
from tests.tokens.llamacpp import Running

T = TypeVar("T")

VLLM = ServerTokens(Server(kind="vllm", model="m"))
LLAMACPP = ServerTokens(Server(kind="llama.cpp", model="m"))
OTHER = ServerTokens(Server(kind="openai"))

BODY: Body = {"model": "m", "messages": [user("Hi")], "temperature": 0}
IDS = [1, 2, 3]

RENDER, TOKENIZE = "api/chat/completions/render", "root/tokenize"
APPLY = "root/apply-template"


def ok(body: object) -> Fetched:
    return Fetched(200, json.dumps(body).encode())


CLOSED = Fetched(403, b'{"error": {"message": "not enabled"}}')


def run(
    flow: Generator[Fetch, Fetched, T], answers: Mapping[str, Fetched]
) -> tuple[T, list[tuple[str, Any]]]:
    """What comes out, and what was asked."""
    asked: list[tuple[str, Any]] = []
    try:
        fetch = next(flow)
        while True:
            address = fetch.base + fetch.path
            asked.append((address, fetch.json))
            fetch = flow.send(answers.get(address, Fetched(404, b"")))
    except StopIteration as stop:
        return stop.value, asked


def as_tokenize(**said: Any) -> Body:
    """What ``/tokenize`` is sent for a request."""
    answers = {RENDER: CLOSED, TOKENIZE: ok({"tokens": IDS})}
    ids, asked = run(VLLM.tokens({**BODY, **said}), answers)
    assert ids == IDS
    assert [address for address, _ in asked] == [RENDER, TOKENIZE]
    body: Body = asked[1][1]
    return body


class TestVLLM:
    def test_render_takes_the_request_as_it_is(self) -> None:
        ids, asked = run(VLLM.tokens(BODY), {RENDER: ok({"token_ids": IDS})})
        assert (ids, asked) == (IDS, [(RENDER, BODY)])

    @pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
    def test_where_that_is_closed(self, status: int) -> None:
        answers = {RENDER: Fetched(status, b""), TOKENIZE: ok({"tokens": IDS})}
        assert run(VLLM.tokens(BODY), answers)[0] == IDS

    def test_only_what_tokenize_knows(self) -> None:
        assert as_tokenize(tools=TOOLS, stream=True) == {
            "model": "m",
            "messages": BODY["messages"],
            "tools": TOOLS,
            "add_generation_prompt": True,
            "continue_final_message": False,
        }

    def test_reasoning_is_renamed(self) -> None:
        messages = [
            user("u"),
            reply("a", reasoning_content="two"),
            reply("a", reasoning_content="two", reasoning="one"),
            reply("a", reasoning="one"),
        ]
        sent = as_tokenize(messages=messages)["messages"]
        assert [each.get("reasoning") for each in sent] == [None, "two", "one", "one"]
        assert not any("reasoning_content" in each for each in sent)

    def test_what_it_does_not_know_becomes_variables(self) -> None:
        sent = as_tokenize(
            reasoning_effort="none",
            documents=[{"text": "x"}],
            chat_template_kwargs={"foo": 1},
            add_generation_prompt=False,
        )
        assert sent["add_generation_prompt"] is False
        assert sent["chat_template_kwargs"] == {
            "foo": 1,
            "documents": [{"text": "x"}],
            "reasoning_effort": "none",
            "enable_thinking": False,
        }

    def test_no_tools_are_refused_as_in_a_chat(self) -> None:
        """``/tokenize`` itself takes an empty list."""
        with pytest.raises(PromptError, match="empty list of tools"):
            as_tokenize(tools=[])

    def test_a_text(self) -> None:
        count, asked = run(VLLM.count("é"), {TOKENIZE: ok({"tokens": IDS})})
        assert count == len(IDS)
        assert asked == [
            (TOKENIZE, {"prompt": "é", "add_special_tokens": False, "model": "m"}),
        ]


class TestLlamaCpp:
    def test_template_then_tokens(self) -> None:
        answers = {APPLY: ok({"prompt": "<s>Hi"}), TOKENIZE: ok({"tokens": IDS})}
        ids, asked = run(LLAMACPP.tokens(BODY), answers)
        assert ids == IDS
        content = {"content": "<s>Hi", "add_special": True, "parse_special": True, "model": "m"}
        assert asked == [(APPLY, BODY), (TOKENIZE, content)]

    def test_a_text(self) -> None:
        count, asked = run(LLAMACPP.count("é"), {TOKENIZE: ok({"tokens": IDS})})
        assert count == len(IDS)
        content = {"content": "é", "add_special": False, "parse_special": True, "model": "m"}
        assert asked == [(TOKENIZE, content)]

    def test_a_real_one(self, llamacpp: str) -> None:
        server = Running(llamacpp)
        tokens = server.connection.run(LLAMACPP.tokens(BODY))
        answer = json.loads(server.fetch("/v1/chat/completions", {**BODY, "max_tokens": 1}).body)
        assert len(tokens) == answer["usage"]["prompt_tokens"]
        assert server.connection.run(LLAMACPP.count("")) == 0
        with pytest.raises(PromptError, match="refuses the request: "):
            server.connection.run(LLAMACPP.tokens({"messages": [{"role": "user"}]}))


REFUSALS = [
    (Fetched(0, b"refused"), "does not answer.*GGUF"),
    (Fetched(404, b""), "is not there.*GGUF"),
    (Fetched(401, b""), "wants a key"),
    (Fetched(400, b'{"error": {"message": "roles must alternate"}}'), "roles must alternate"),
    (Fetched(400, b'{"error": "too odd"}'), "too odd"),
    (Fetched(400, b'{"message": "odd"}'), "odd"),
    (Fetched(500, b"plain words"), "plain words"),
    (Fetched(500, b""), "status 500"),
    (Fetched(400, b"x" * 10_000), "x{300}$"),
    (ok({}), "not known here"),
    (ok([]), "not known here"),
    (ok({"tokens": "no", "token_ids": "no", "prompt": 1}), "not known here"),
    (ok({"tokens": [1, "a"], "token_ids": [None], "prompt": None}), "not known here"),
    (Fetched(200, b"<html>"), "not known here"),
]


FLOWS: Mapping[str, list[Callable[[], Generator[Fetch, Fetched, object]]]] = {
    TOKENIZE: [
        lambda: VLLM.tokens(BODY),
        lambda: LLAMACPP.tokens(BODY),
        lambda: VLLM.count("x"),
        lambda: LLAMACPP.count("x"),
    ],
    APPLY: [lambda: LLAMACPP.tokens(BODY)],
    RENDER: [lambda: VLLM.tokens(BODY)],
}


@pytest.mark.parametrize(("answer", "words"), REFUSALS, ids=str)
@pytest.mark.parametrize("path", [TOKENIZE, APPLY, RENDER])
def test_no_tokens_come_back(path: str, answer: Fetched, words: str) -> None:
    """One sentence says why, and what to do."""
    answers = {APPLY: ok({"prompt": "x"}), RENDER: CLOSED, path: answer}
    if path == RENDER and answer.status in (401, 404):
        return  # then the other address is asked
    for flow in FLOWS[path]:
        with pytest.raises(PromptError, match=words):
            run(flow(), answers)


def test_a_server_that_tells_no_tokens() -> None:
    with pytest.raises(PromptError, match=r"GGUF.*folder"):
        run(OTHER.tokens(BODY), {})
    with pytest.raises(PromptError, match=r"GGUF.*folder"):
        run(OTHER.count("x"), {})


def test_names() -> None:
    assert VLLM.name == "vllm server of m"
    assert OTHER.name == "openai server of an unnamed model"
