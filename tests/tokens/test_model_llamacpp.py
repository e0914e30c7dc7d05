"""Are prompts and ids those that a real llama.cpp server computes on?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.backends.llamacpp_prompt import Abilities, abilities_of, dialect
from kvagent.backends.prompt import PromptError
from kvagent.cli.demo.server import CHAT_TEMPLATE
from kvagent.tokens.model import Model
from kvagent.tokens.template import TemplateError
from tests.tokens.chats import BODIES, CONVERSATIONS, TOOLS, Body, reply, user
from tests.tokens.llamacpp import Running, differences, running, smollm2, tiny_smollm2

EMBEDDED = dialect()
"""The server as the demo starts it: none of llama-server's own defaults."""

TEMPLATES = (
    "GLM-4.6",
    "HuggingFaceTB-SmolLM3-3B",
    "MiniMax-M2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen-Qwen3-0.6B",
    "Qwen3-Coder",
    "deepseek-ai-DeepSeek-V3.1",
    "ibm-granite-granite-3.3-2B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "openai-gpt-oss-120b",
)

CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    st.sampled_from("aAzZ 's'T09 \n\r\t.,;!{}<>|/\\_éß日本한😀\u0301\u00a0\u3000\u200d"),
)
PIECES = st.one_of(
    st.text(CHARACTERS, max_size=30),
    st.sampled_from(
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "1234567", "\r\n\r\n"]
    ),
)
TEXTS = st.lists(PIECES, max_size=5).map("".join)


@pytest.fixture(scope="session")
def smol() -> Model:
    """The model of the `llamacpp` fixture."""
    return Model.from_gguf(smollm2(), CHAT_TEMPLATE.read_text(encoding="utf-8"), EMBEDDED)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_smollm2(tmp_path_factory.mktemp("tiny"))


def rendered(model: Model, body: Body) -> str | None:
    try:
        return model.prompt(body)
    except (PromptError, TemplateError):
        return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_prompts_of_a_template(shared: Path, tiny: Path, name: str) -> None:
    """And what the server found out about the template is what is found out here."""
    file = shared / "data" / "chat_templates" / f"{name}.jinja"
    model = Model.from_gguf(tiny, file.read_text(encoding="utf-8"), EMBEDDED)
    with running(tiny, file) as server:
        assert known(abilities_of(model.template)) == caps(server)
        prompts = [server.prompt(body) for body in BODIES]
        assert [rendered(model, body) for body in BODIES] == prompts
        _, longest = max((len(text), at) for at, text in enumerate(prompts) if text)
        assert model.tokens(BODIES[longest]) == server.tokens(BODIES[longest])


def known(abilities: Abilities) -> tuple[bool, ...]:
    return (abilities.text, abilities.parts, abilities.system, abilities.objects)


def caps(server: Running) -> tuple[bool, ...]:
    found = server.props()["chat_template_caps"]
    names = ("string_content", "typed_content", "system_role", "object_arguments")
    return tuple(found[f"supports_{name}"] for name in names)


def test_ids_of_every_conversation(smol: Model, llamacpp: str) -> None:
    server = Running(llamacpp)
    for name, messages in CONVERSATIONS.items():
        for body in ({"messages": messages}, {"messages": messages, "tools": TOOLS}):
            ours, theirs = smol.tokens(body), server.tokens(body)
            assert ours == theirs, f"{name}, {differences(ours, theirs)}"


def test_the_count_is_what_the_reply_says(smol: Model, llamacpp: str) -> None:
    """The prompt's tokens, as the server counts them when it has computed them."""
    body = {"messages": [user("Say é😀 1234567.\r\n")], "max_tokens": 1}
    answer = Running(llamacpp).fetch("/v1/chat/completions", body)
    assert f'"prompt_tokens":{len(smol.tokens(body))},'.encode() in answer.body


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(many=st.lists(TEXTS, min_size=40, max_size=80))
def test_ids_of_any_text(smol: Model, llamacpp: str, many: list[str]) -> None:
    ours = [token for text in many for token in smol.tokenizer.encode(text)]
    theirs = Running(llamacpp).encode(*many)
    if ours != theirs:  # then with the shortest text alone
        for text in many:
            assert smol.tokenizer.encode(text) == Running(llamacpp).encode(text), text
    assert ours == theirs


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(said=TEXTS, answered=TEXTS, asked=TEXTS)
def test_ids_of_any_chat(smol: Model, llamacpp: str, said: str, answered: str, asked: str) -> None:
    body: Body = {"messages": [user(said), reply(answered), user(asked)]}
    assert smol.tokens(body) == Running(llamacpp).tokens(body)


def test_a_model_without_a_template_speaks_chatml(tiny: Path) -> None:
    model = Model.from_gguf(tiny, dialect=EMBEDDED)
    bodies: list[Body] = [
        {"messages": messages, **extra}
        for messages in CONVERSATIONS.values()
        for extra in ({}, {"add_generation_prompt": False}, {"tools": TOOLS})
    ]
    with running(tiny) as server:
        assert [rendered(model, body) for body in bodies] == [
            server.prompt(body) for body in bodies
        ]
