"""Is it told what the chat template does to messages that only grew?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.prediction import Target
from kvagent.audit.rendered import Exact
from kvagent.audit.transcript import Request
from kvagent.audit.turns import Analysis
from kvagent.backends.llamacpp_prompt import LLAMACPP
from kvagent.backends.vllm_prompt import VLLM
from kvagent.tokens.model import Model
from kvagent.tokens.template import ChatTemplate
from tests.audit.logs import SYSTEM, TOOLS, Message, call, reply, request, result, user
from tests.audit.rules.audited import finding, findings, session
from tests.audit.test_rendered import Bytes
from tests.tokens.toy_templates import Toy

pytest.importorskip("tokenizers", reason="needs the extra `exact`")
pytest.importorskip("jinja2", reason="needs the extra `exact`")

BREAKS = ("KVA301", "KVA303", "KVA306", "KVA307")


def toy(**what: Any) -> str:
    return Toy(**what).source()


def exact(source: str, kind: str = "vllm") -> Analysis:
    dialect = VLLM if kind == "vllm" else LLAMACPP
    edges = {"bos_token": "<s>", "eos_token": "</s>"}
    template = ChatTemplate(dialect.mend(source), edges, adapt=dialect.adapt)
    target = Target("vllm" if kind == "vllm" else "llama.cpp")
    return Analysis(Exact(Model(template, Bytes(), dialect)), target)


def thought(message: Message, number: int) -> Message:
    text = f"Let me think about step {number}, which is quite a long matter."
    return {**message, "reasoning": text, "reasoning_content": text}


def log(
    *, system: bool = True, thinking: bool = True, late: bool = False, **more: Any
) -> list[Request]:
    """Two loops of tool calls, a user's message behind each."""
    messages: list[Message] = [SYSTEM] if system else []
    messages.append(user("Please look into the file a.py and tell what is wrong with it."))
    prompts = [list(messages)]
    for loop in range(2):
        for step in range(3):
            at = f"abcdefg{loop}{step}"
            called = call("read", at)
            messages.append(thought(called, step) if thinking else called)
            messages.append(result(f"line {step}\n" * 20, at))
            prompts.append(list(messages))
        answer = reply(f"I have found fault {loop}.")
        messages.append(thought(answer, 9) if thinking else answer)
        if late:
            messages.append({"role": "system", "content": "Remember to be brief from now on."})
        messages.append(user(f"Thank you. Now do part {loop} as well."))
        prompts.append(list(messages))
    return [request(prompt, line, tools=TOOLS, **more) for line, prompt in enumerate(prompts, 1)]


def real(shared: Path, name: str) -> str:
    return (shared / "data" / "chat_templates" / f"{name}.jinja").read_text()


def test_a_template_that_only_appends() -> None:
    found = session(log(), exact(toy())).findings
    assert not [each for each in found if each.rule.code.startswith("KVA3")]


def test_reasoning_that_is_stripped() -> None:
    found = finding(log(), "KVA306", exact(toy(reasoning="loop")))
    assert found.rule.severity == "warning"
    assert [(spot.turn, spot.message) for spot in found.spots] == [(5, 2), (9, 10)]
    contrast = found.spots[0].contrast
    assert contrast is not None
    assert "think about step 0" in contrast.before[contrast.offset - 20 :]
    assert "think about" not in contrast.after
    assert found.tokens > 400
    assert "leave the reasoning out" in found.fix
    for code in ("KVA301", "KVA303", "KVA307"):
        assert not findings(log(), code, exact(toy(reasoning="loop")))


@pytest.mark.parametrize("reasoning", ["never", "always"])
def test_reasoning_that_is_kept_or_never_shown(reasoning: str) -> None:
    assert not findings(log(), "KVA306", exact(toy(reasoning=reasoning)))


def test_reasoning_that_is_not_sent() -> None:
    assert not findings(log(thinking=False), "KVA306", exact(toy(reasoning="loop")))


def test_without_a_template_nothing_is_said_of_it() -> None:
    for code in BREAKS:
        assert not findings(log(), code)


def test_tools_in_front_of_the_last_user_message() -> None:
    analysis = exact(toy(tools="last_user"))
    found = finding(log(), "KVA303", analysis)
    assert found.rule.severity == "error"
    assert [spot.turn for spot in found.spots] == [5, 9]
    assert found.tokens > 400
    assert not findings(log(), "KVA303", exact(toy(tools="first_user")))


def test_a_late_system_message_that_goes_to_the_head() -> None:
    found = finding(log(late=True), "KVA307", exact(toy(system="joined")))
    assert [spot.turn for spot in found.spots] == [5, 9]
    assert not findings(log(), "KVA307", exact(toy(system="joined")))
    assert not findings(log(late=True), "KVA304", exact(toy(system="joined")))


def test_a_late_system_message_that_stays_in_its_place() -> None:
    for code in (*BREAKS, "KVA304", "KVA305"):
        assert not findings(log(late=True), code, exact(toy(system="head")))


def test_a_late_system_message_without_a_template() -> None:
    found = finding(log(late=True), "KVA304")
    assert found.rule.severity == "note"
    assert [(spot.turn, spot.message) for spot in found.spots] == [(5, 9), (9, 18)]
    assert not findings(log(), "KVA304")


def test_what_the_template_refuses() -> None:
    """What follows is compared with nothing that was only estimated."""
    analysis = exact(toy(system="strict"))
    found = session(log(late=True), analysis).findings
    (refused,) = (each for each in found if each.rule.code == "KVA305")
    assert [spot.turn for spot in refused.spots] == [5, 6, 7, 8, 9]
    assert not [each for each in found if each.rule.code in BREAKS]
    assert not findings(log(), "KVA305", exact(toy(system="strict")))


def test_a_picture_is_no_refusal() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    picture = [SYSTEM, {"role": "user", "content": [{"type": "text", "text": "look"}, url]}]
    assert not findings([request(picture)], "KVA305", exact(toy()))


def test_a_server_that_tells_no_tokens_refuses_nothing() -> None:
    from kvagent.audit.conversations import Placed
    from kvagent.audit.prompts import Estimated, Tokens
    from kvagent.backends import Fetched
    from kvagent.backends.token_answers import refused

    class Silent(Estimated):
        status = 0

        def tokens(self, placed: Placed) -> Tokens:
            made = super().tokens(placed)
            error = refused(Fetched(self.status, b"{}"), "/tokenize")
            return Tokens(made.ids, made.starts, exact=False, fault=str(error))

    for status, told in ((0, 0), (404, 0), (401, 0), (400, 1)):
        prompts = Silent()
        prompts.status = status
        assert len(findings(log(), "KVA305", Analysis(prompts))) == told


def test_the_date() -> None:
    dated = "{{ strftime_now('%d %b %Y') }}\n" + toy()
    found = finding(log(), "KVA302", exact(dated))
    assert found.count == 1
    assert found.rule.severity == "warning"
    assert not findings(log(), "KVA302", exact(toy()))
    assert not findings(log(), "KVA302")


def test_a_date_that_the_server_gives() -> None:
    """llama.cpp sets it to today, vLLM leaves it to the template."""
    dated = "{% if date_string is not defined %}{% set date_string = '26 Jul 2024' %}{% endif %}"
    source = dated + "Today: {{ date_string }}\n" + toy()
    found = finding(log(), "KVA302", exact(source, "llama.cpp"))
    assert "date_string" in found.fix
    assert not findings(log(), "KVA302", exact(source, "vllm"))
    pinned = {"chat_template_kwargs": {"date_string": "31 Jan 2026"}}
    assert not findings(log(options=pinned), "KVA302", exact(source, "llama.cpp"))


CASES = [
    ("Qwen-Qwen2.5-7B-Instruct", {}, set()),
    ("Qwen3-Coder", {}, set()),
    ("HuggingFaceTB-SmolLM3-3B", {}, set()),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", {}, set()),
    ("GLM-4.6", {}, {"KVA306"}),
    ("GLM-4.6", {"thinking": False}, set()),
    ("MiniMax-M2", {}, {"KVA306"}),
    ("Qwen-Qwen3-0.6B", {}, {"KVA306"}),
    ("Qwen-Qwen3-0.6B", {"thinking": False}, set()),
    ("deepseek-ai-DeepSeek-V3.1", {}, set()),
    ("deepseek-ai-DeepSeek-V3.1", {"late": True}, {"KVA307"}),
    ("ibm-granite-granite-3.3-2B-Instruct", {}, set()),
    ("ibm-granite-granite-3.3-2B-Instruct", {"system": False}, {"KVA302"}),
    ("mistralai-Mistral-Nemo-Instruct-2407", {}, {"KVA303", "KVA307"}),
    ("mistralai-Mistral-Nemo-Instruct-2407", {"late": True}, {"KVA305", "KVA307"}),
    ("openai-gpt-oss-120b", {}, {"KVA302"}),
]


@pytest.mark.parametrize(("name", "how", "codes"), CASES)
def test_real_templates(shared: Path, name: str, how: dict[str, bool], codes: set[str]) -> None:
    found = session(log(**how), exact(real(shared, name))).findings
    assert {each.rule.code for each in found if each.rule.code.startswith("KVA3")} == codes
