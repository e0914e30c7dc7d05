"""Are a running server's tokens the same that its model's files give, and the messages where they are?"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, TypeVar

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.audit.conversations import Conversations
from kvagent.audit.prompts import Estimated
from kvagent.audit.rendered import Exact
from kvagent.audit.served import Served, served
from kvagent.audit.settings import Settings, SettingsError
from kvagent.audit.turns import Analysis, Turn
from kvagent.backends import Fetch, Fetched, Server
from kvagent.backends.llamacpp_prompt import LLAMACPP
from kvagent.backends.prompt import PromptError
from kvagent.backends.vllm_prompt import VLLM
from kvagent.tokens.model import Model
from kvagent.tokens.server import ServerTokens
from kvagent.tokens.template import ChatTemplate, TemplateError
from tests.audit.logs import SYSTEM, TOOLS, Message, call, reply, request, result, user
from tests.audit.test_rendered import MARKS, Bytes, logs
from tests.tokens.toy_templates import Toy

pytest.importorskip("tokenizers", reason="needs the extra `exact`")
pytest.importorskip("jinja2", reason="needs the extra `exact`")

T = TypeVar("T")
KINDS = ("llama.cpp", "vllm")


class Toys:
    """A server that answers out of a model's files."""

    def __init__(
        self, kind: Literal["llama.cpp", "vllm"] = "llama.cpp", toy: Toy | None = None
    ) -> None:
        dialect = LLAMACPP if kind == "llama.cpp" else VLLM
        self.model = Model(ChatTemplate((toy or Toy()).source()), Bytes(), dialect)
        self.tokens = ServerTokens(Server(kind, model="toy"))
        self.asked: list[str] = []
        self.down = False

    def __call__(self, flow: Generator[Fetch, Fetched, T], /) -> T:
        try:
            fetch = next(flow)
            while True:
                fetch = flow.send(self.answer(fetch))
        except StopIteration as stop:
            value: T = stop.value
            return value

    def answer(self, fetch: Fetch) -> Fetched:
        if self.down:
            return Fetched(0, b"Connection refused")
        self.asked.append(fetch.path)
        body: Any = fetch.json
        assert body["model"] == "toy"
        try:
            if fetch.path == "/apply-template":
                return Fetched(200, orjson.dumps({"prompt": self.model.prompt(body)}))
            if fetch.path == "/tokenize":
                return Fetched(200, orjson.dumps({"tokens": self._ids(body)}))
            if fetch.path == "/detokenize":
                return Fetched(200, orjson.dumps({"prompt": _text(body["tokens"])}))
        except (PromptError, TemplateError) as error:
            return Fetched(400, orjson.dumps({"error": {"message": str(error)}}))
        return Fetched(404, b"")

    def _ids(self, body: Any) -> list[int]:
        if "messages" in body:
            return self.model.tokens(body)
        return self.model.tokenizer.encode(body["content"] if "content" in body else body["prompt"])


def _text(ids: list[int]) -> str:
    text = b"".join(bytes([token]) if token < 256 else MARKS[token - 300].encode() for token in ids)
    return text.decode()


@settings(deadline=None, max_examples=60)
@given(logs(), st.sampled_from(KINDS))
def test_they_are_those_of_its_files(
    log: list[tuple[list[Message], list[dict[str, Any]]]], kind: Literal["llama.cpp", "vllm"]
) -> None:
    toys = Toys(kind)
    by_server, by_files = Served(toys.tokens, toys), Exact(toys.model)
    conversations = Conversations()
    for messages, tools in log:
        options = {"model": "gpt-4o", "max_tokens": 9}
        placed = conversations.place(request(messages, tools=tools, options=options))
        ours, theirs = by_server.tokens(placed), by_files.tokens(placed)
        assert ours.exact == theirs.exact
        if ours.exact:
            assert ours.ids == theirs.ids
        assert len(ours.starts) == len(messages) + 1
        assert list(ours.starts) == sorted(ours.starts)
        assert ours.starts[-1] == len(ours.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_stand_where_they_are_in_a_prompt_that_grows(
    kind: Literal["llama.cpp", "vllm"],
) -> None:
    """A few tokens are what a template writes around a message."""
    toys = Toys(kind)
    by_server, by_files = Served(toys.tokens, toys), Exact(toys.model)
    conversations = Conversations()
    messages = [SYSTEM, user("Please read both files. " * 20)]
    for turn in range(8):
        placed = conversations.place(request(messages, tools=TOOLS))
        ours, theirs = by_server.tokens(placed).starts, by_files.tokens(placed).starts
        for number in range(2, len(messages)):
            assert abs(ours[number] - theirs[number]) <= 40
        messages = [
            *messages,
            call("read", f"abcdefg{turn}"),
            result(f"line {turn}\n" * 300, f"abcdefg{turn}"),
            *([reply("It is long. " * 30), user("Go on.")] if turn % 2 else []),
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_asked_what_its_template_changed(kind: Literal["llama.cpp", "vllm"]) -> None:
    toys = Toys(kind, Toy(reasoning="loop"))
    thought = {**call("read", "a"), "reasoning_content": "Let me think. " * 9}
    asked = [SYSTEM, user("Mend the clock."), thought, result("a line", "a")]
    log = [request(asked), request([*asked, reply("so it is"), user("go on")])]
    seen = []
    for prompts in (Served(toys.tokens, toys), Exact(toys.model)):
        *_, turn = Analysis(prompts).turns(log)
        assert isinstance(turn, Turn)
        (difference,) = turn.differences
        assert difference.cause == "template"
        assert "Let me think" in difference.before
        seen.append((difference.character, difference.before, difference.after))
    assert seen[0] == seen[1]


def test_a_request_that_is_sent_again_is_not_asked_for_again() -> None:
    toys = Toys()
    prompts, conversations = Served(toys.tokens, toys), Conversations()
    sent = request([SYSTEM, user("Hello, are you there?")])
    first = prompts.tokens(conversations.place(sent))
    asked = len(toys.asked)
    assert prompts.tokens(conversations.place(sent)).ids == first.ids
    assert len(toys.asked) == asked


def test_what_it_refuses_is_estimated() -> None:
    toys = Toys()
    prompts, conversations = Served(toys.tokens, toys), Conversations()
    broken = request([SYSTEM, user("half \ud83d a pair")])
    tokens = prompts.tokens(conversations.place(broken))
    assert not tokens.exact
    assert "no JSON that can be sent" in tokens.fault
    toys.down = True
    placed = conversations.place(request([SYSTEM, user("Hello")]))
    tokens = prompts.tokens(placed)
    assert tokens.fault == "llama.cpp's /apply-template does not answer"
    assert tokens.ids == Estimated().tokens(placed).ids
    assert prompts.count("some words") == Estimated().count("some words")


def test_a_server_that_tells_no_tokens() -> None:
    def nobody(flow: Generator[Fetch, Fetched, T], /) -> T:
        try:
            next(flow)
            while True:
                flow.send(Fetched(404, b""))
        except StopIteration as stop:
            value: T = stop.value
            return value

    with pytest.raises(SettingsError, match="http://x/v1 tells no tokens"):
        served(Settings(), "http://x/v1", nobody)
    with pytest.raises(SettingsError, match="renders with a template of its own"):
        served(Settings(template="chat.jinja"), "http://x/v1", nobody)


def test_a_real_llama_cpp(llamacpp: str) -> None:
    """It is predicted for as well: its slots and its window are its own."""
    from kvagent.cli.connection import connect
    from kvagent.cli.doctor.rendering import profile_server

    connection = connect(llamacpp)
    counting = served(Settings(), llamacpp, connection.run, profile_server)
    assert counting.target.kind == "llama.cpp"
    assert counting.target.window is not None
    analysis = counting.analysis()
    turns = [analysis.turn(request([SYSTEM, user("Hello"), *more])) for more in (
        [], [reply("Hello."), user("And what now?")]
    )]  # fmt: skip
    assert all(turn.exact for turn in turns)
    assert turns[1].predicted_tokens is not None
    assert turns[1].predicted_tokens > turns[0].prompt_tokens // 2
    assert analysis.prompts.profile is not None
