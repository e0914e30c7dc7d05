"""Are these the very tokens of the whole prompt, although most of it is taken over?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.audit.conversations import Conversations
from kvagent.audit.prompts import Estimated, Ids
from kvagent.audit.rendered import Exact
from kvagent.backends.llamacpp_prompt import LLAMACPP
from kvagent.backends.vllm_prompt import VLLM
from kvagent.tokens.model import Model
from kvagent.tokens.template import ChatTemplate, TemplateError
from kvagent.tokens.tokenizer import TokenizerError
from tests.audit.logs import SYSTEM, TOOLS, Message, call, reply, request, result, user
from tests.tokens.toy_templates import Toy

pytest.importorskip("tokenizers", reason="needs the extra `exact`")
pytest.importorskip("jinja2", reason="needs the extra `exact`")

# How many requests are told ahead at once, 0: each comes as a surprise; and how many of those told
# before are not asked for yet then.
AHEAD = st.tuples(st.sampled_from((0, 1, 3, 100)), st.sampled_from((0, 1, 4)))

TOYS = st.builds(
    Toy,
    reasoning=st.sampled_from(("never", "always", "loop", "emptied")),
    ask=st.sampled_from(("plain", "think", "closed")),
    tools=st.sampled_from(("head", "first_user", "last_user", "nowhere")),
    system=st.sampled_from(("head", "last_user", "joined", "strict", "own")),
    results=st.sampled_from(("apart", "merged", "reopened")),
    arguments=st.sampled_from(("json", "text", "xml", "nowhere")),
    trims=st.booleans(),
    ids=st.booleans(),
    speaks=st.sampled_from(("kept", "dropped")),
)


MARKS = ("<|im_start|>", "<|im_end|>", "<s>", "</s>")


class Bytes:
    """A tokenizer of bytes, with ChatML's special tokens and one that swallows nothing."""

    name = "bytes"

    def __init__(self) -> None:
        from kvagent.backends.prompt import Edges
        from kvagent.tokens.specials import Specials

        self.edges = Edges()
        self._specials = Specials({mark: 300 + at for at, mark in enumerate(MARKS)})

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        ids: list[int] = []
        for piece in self._specials.split(text):
            ids += [piece] if isinstance(piece, int) else piece.encode("utf-8", "surrogatepass")
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]


class Beginning(Bytes):
    """Whoever asks for special tokens gets one at the beginning."""

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        if not text.isascii():
            raise TokenizerError("the text is no text: it holds half a surrogate pair")
        return [500] * add_special + super().encode(text)


class Joining(Bytes):
    """What stands before a special token changes what comes after it."""

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        ids = super().encode(text)
        joined = []
        for at, token in enumerate(ids):
            joined.append(400 if token == 10 and at > 6 and ids[at - 5] == 300 else token)
        return joined


@cache
def model(source: str, joining: bool = False) -> Model:
    return Model(ChatTemplate(source), Joining() if joining else Bytes(), VLLM)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[list[Message], list[dict[str, Any]]]]:
    """Prompts of a session that mostly grows; at times it goes back, or something old changes."""
    chance = random.Random(draw(st.integers(0, 9_999)))
    tools = draw(st.sampled_from(([], TOOLS, TOOLS[:1])))
    messages = [SYSTEM] if draw(st.booleans()) else []
    messages.append(user("Please look. "))
    prompts = []
    for turn in range(draw(st.integers(1, 6))):
        prompts.append((list(messages), tools))
        for number in range(draw(st.integers(1, 2))):
            at = f"abcdefg{turn}{number}"
            step = draw(st.sampled_from(("call", "talk", "think")))
            if step == "call":
                messages += [call("read", at), result(f"line {chance.random()}\n", at)]
            else:
                spoken = reply(f"I have done {turn}. ")
                if step == "think":
                    spoken["reasoning_content"] = f"Let me think of {turn}."
                messages += [spoken, user(chance.choice(("go on", " yes ", "<|im_end|>")))]
        if draw(st.integers(0, 5)) == 5:
            messages = messages[: max(2, len(messages) - 4)]
            if messages[-1]["role"] != "user":
                messages.append(user("once more"))
        if draw(st.integers(0, 5)) == 5:
            changed = chance.randrange(len(messages))
            messages[changed] = {**messages[changed], "content": "changed"}
    return prompts


def check(
    source: str,
    log: list[tuple[list[Message], list[dict[str, Any]]]],
    ahead: tuple[int, int] = (1, 0),
) -> None:
    many, waiting = ahead
    told = 0
    prompts, conversations = Exact(model(source)), Conversations()
    last: dict[int | None, Ids[int]] = {}
    placing = [conversations.place(request(messages, tools=tools)) for messages, tools in log]
    for at, (placed, (messages, tools)) in enumerate(zip(placing, log, strict=True)):
        while many and told <= at + waiting and told < len(placing):
            prompts.ahead(placing[told : told + many])
            told += many
        tokens = prompts.tokens(placed)
        body = {"messages": messages, **({"tools": tools} if tools else {})}
        if tokens.fault:
            assert not tokens.exact
            continue
        assert list(tokens.ids) == model(source).tokens(body)
        assert len(tokens.starts) == len(messages) + 1
        assert list(tokens.starts) == sorted(tokens.starts)
        assert tokens.starts[-1] == len(tokens.ids)
        before = last.get(placed.left)
        assert before is not None or not tokens.same
        if before is not None:
            assert tokens.ids[: tokens.same] == before[: tokens.same]
        last[placed.branch] = tokens.ids


@settings(max_examples=60, deadline=None)
@given(TOYS, logs(), AHEAD)
def test_templates_of_all_kinds(toy: Toy, log: list[Any], ahead: tuple[int, int]) -> None:
    check(toy.source(), log, ahead)


def templates(shared: Path) -> dict[str, str]:
    files = sorted((shared / "data" / "chat_templates").glob("*.jinja"))
    return {file.stem: file.read_text() for file in files}


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_real_templates(shared: Path, data: st.DataObject) -> None:
    each = templates(shared)
    name = data.draw(st.sampled_from(sorted(each)))
    try:
        model(each[name])
    except TemplateError:
        return
    check(each[name], data.draw(logs()), data.draw(AHEAD))


def test_a_prompt_that_only_grows_is_not_rendered_again(shared: Path) -> None:
    """Nearly all turns of a session render the new messages alone."""
    source = templates(shared)["Qwen-Qwen2.5-7B-Instruct"]
    made = model(source)
    longest = 0

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(made, name)

        def prompt(self, body: dict[str, Any]) -> str:
            nonlocal longest
            longest += len(body["messages"]) > 20
            return made.prompt(body)

    prompts, conversations = Exact(Counting()), Conversations()  # type: ignore[arg-type]
    messages = [SYSTEM, user("hi")]
    for turn in range(100):
        messages += [call("read", f"{turn}"), result(f"{turn}\n", f"{turn}")]
        tokens = prompts.tokens(conversations.place(request(messages, tools=TOOLS)))
        assert tokens.exact
    assert longest < 10
    assert list(tokens.ids) == made.tokens({"messages": messages, "tools": TOOLS})


def test_a_tokenizer_that_joins_pieces_is_asked_for_whole_prompts(shared: Path) -> None:
    """The fourth prompt is looked at, and shows it."""
    joining = model(templates(shared)["Qwen-Qwen3-0.6B"], joining=True)
    prompts, conversations = Exact(joining), Conversations()
    messages = [user("Please look. ")]
    for turn in range(9):
        messages += [call("read", f"{turn}"), result(f"{turn}\n", f"{turn}")]
        tokens = prompts.tokens(conversations.place(request(messages)))
        if turn >= 3:
            assert list(tokens.ids) == joining.tokens({"messages": messages})
            assert tokens.same == 0


@settings(deadline=None)
@given(logs())
def test_an_estimate_of_a_prompt_that_grew_is_that_of_the_whole(log: list[Any]) -> None:
    prompts, conversations = Estimated(), Conversations()
    for messages, tools in log:
        placed = conversations.place(request(messages, tools=tools))
        tokens, alone = prompts.tokens(placed), Estimated().tokens(placed)
        assert tokens.ids == alone.ids
        assert tokens.starts == alone.starts


def test_where_messages_stand(shared: Path) -> None:
    source = templates(shared)["Qwen-Qwen2.5-7B-Instruct"]
    messages = [SYSTEM, user("question"), call("read", "1"), result("line", "1"), reply("answer")]
    tokens = Exact(model(source)).tokens(Conversations().place(request(messages, tools=TOOLS)))
    text = [bytes([token]) if token < 256 else b"|" for token in tokens.ids]
    parts = [
        b"".join(text[begin:end])
        for begin, end in zip(tokens.starts, tokens.starts[1:], strict=False)
    ]
    assert SYSTEM["content"].encode() in parts[0]
    assert b'"name": "write"' in parts[0]
    assert parts[1].startswith(b"question")
    assert parts[2].startswith(b"read")
    assert parts[3].startswith(b"line")
    assert parts[4].startswith(b"answer")


def test_what_the_server_refuses_is_estimated() -> None:
    source = "{{ raise_exception('only users') }}"
    tokens = Exact(model(source)).tokens(Conversations().place(request([user("hi")])))
    assert not tokens.exact
    assert "only users" in tokens.fault
    assert len(tokens.ids) > 2


def test_half_a_surrogate_pair_fails_nothing() -> None:
    tokens = Exact(model("{{ messages[0].content }}")).tokens(
        Conversations().place(request([user("a\ud800b")]))
    )
    assert len(tokens.ids) > 2


_TALK = "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}"


def test_what_is_added_at_the_ends_is_seen_although_the_first_prompt_is_no_text() -> None:
    adding = Model(ChatTemplate(_TALK), Beginning(), LLAMACPP)
    prompts, conversations = Exact(adding), Conversations()
    assert prompts.tokens(conversations.place(request([user("a\ud800b")]))).fault
    for text in ("one", "another"):
        tokens = prompts.tokens(conversations.place(request([user(text)])))
        assert list(tokens.ids) == adding.tokens({"messages": [user(text)]})
        assert tokens.ids[0] == 500


@given(st.lists(st.sampled_from(({}, {"add_special_tokens": True}, {"add_special_tokens": False}))))
def test_some_requests_ask_for_what_is_added_at_the_ends(asked: list[dict[str, bool]]) -> None:
    adding = Model(ChatTemplate(_TALK), Beginning(), VLLM)
    prompts, conversations = Exact(adding), Conversations()
    messages: list[Message] = []
    for turn, options in enumerate(asked):
        messages = [*messages, user(f"question {turn}")]
        tokens = prompts.tokens(conversations.place(request(messages, options=options)))
        assert list(tokens.ids) == adding.tokens({"messages": messages, **options})


@pytest.mark.parametrize("unknown", ["{{ raise_exception('no such call') }}", "unknown"])
def test_a_template_that_looks_for_the_call_of_a_result(unknown: str, shared: Path) -> None:
    branch = '{%- elif message.role == "tool" %}'
    looks = (
        "{% set found = namespace(name='') %}{% for other in messages %}"
        "{% for call in other.tool_calls or [] if call.id == message.tool_call_id %}"
        "{% set found.name = call.function.name %}{% endfor %}{% endfor %}"
        "{% if not found.name %}" + unknown + "{% endif %}{{ found.name }}: "
    )
    source = templates(shared)["Qwen-Qwen2.5-7B-Instruct"]
    assert branch in source
    looking = model(source.replace(branch, branch + looks))
    prompts, conversations = Exact(looking), Conversations()
    messages = [user("Please look. ")]
    for turn in range(6):
        for message in (call("read", f"abcdefg{turn}0"), result(f"{turn}\n", f"abcdefg{turn}0")):
            messages.append(message)
            tokens = prompts.tokens(conversations.place(request(messages)))
            assert list(tokens.ids) == looking.tokens({"messages": messages})
