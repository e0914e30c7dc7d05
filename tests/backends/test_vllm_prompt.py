"""What does vLLM make of a request before its template sees it?

What its own code makes of many requests is recorded (``record_vllm_prompts.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvagent.backends.prompt import Dialect, Edges, PromptError
from kvagent.backends.vllm_content import takes_parts
from kvagent.backends.vllm_prompt import VLLM, dialect
from kvagent.tokens.template import ChatTemplate, TemplateError
from tests.backends.vllm_bodies import ALL, HEADER, MIRROR, TEMPLATES, called, function, system
from tests.tokens.chats import TOOLS, Body, Message, reply, result, texts, user

U = user("u")

VARIABLES = """{% for m in messages %}{% endfor -%}
{{ [add_generation_prompt, enable_thinking|default(0), foo|default(0)] }}"""


def prompt(body: Body, source: str = MIRROR, how: Dialect = VLLM) -> str:
    return how.prompt(body, ChatTemplate(source, adapt=how.adapt), Edges()).text


def seen(*messages: Message, how: Dialect = VLLM, source: str = MIRROR, **said: Any) -> list[Any]:
    """The messages that the template sees."""
    text = prompt({"messages": [*messages], **said}, source, how)
    return [json.loads(each) for each in text.partition("<T>")[0][1:-1].split("][")]


def attempted(body: Body, source: str) -> str | None:
    try:
        return prompt(body, source)
    except (PromptError, TemplateError):
        return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_as_its_own_code(recorded: Callable[[str], dict[str, Any]], name: str) -> None:
    theirs = recorded("vllm_prompts")["prompts"][name]
    for body, text in zip(ALL, theirs, strict=True):
        before = json.dumps(body)
        assert attempted(body, TEMPLATES[name]) == text, body
        assert json.dumps(body) == before


class TestMessages:
    def test_arguments_become_an_object(self) -> None:
        _, message, _ = seen(U, called('{ "b":1.0e3, "a":"\\u00e9" }'), result("r", "c0"))
        assert message["tool_calls"][0]["function"]["arguments"] == {"b": 1000.0, "a": "é"}
        assert [*message["tool_calls"][0]] == ["id", "function", "type"]

    @pytest.mark.parametrize("arguments", ["", "{bad", "[1]", "5", "null", '"x"'])
    def test_arguments_that_are_no_object_become_an_empty_one(self, arguments: str) -> None:
        _, message, _ = seen(U, called(arguments), result("r", "c0"))
        assert message["tool_calls"][0]["function"]["arguments"] == {}

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ({"reasoning": "one"}, "one"),
            ({"reasoning_content": "two"}, "two"),
            ({"reasoning": "one", "reasoning_content": "two"}, "one"),
            ({"reasoning": None, "reasoning_content": "two"}, "two"),
        ],
    )
    def test_reasoning_has_both_names(self, said: dict[str, Any], kept: str) -> None:
        _, message, _ = seen(U, reply("a", **said), U)
        assert (message["reasoning"], message["reasoning_content"]) == (kept, kept)

    def test_unknown_keys_are_dropped(self) -> None:
        _, message, _ = seen(U, reply("a", refusal=None, annotations=[], cached=1), U)
        assert message == {"role": "assistant", "content": "a"}

    def test_parts_become_one_text_or_stay(self) -> None:
        body = {"messages": [user(texts("a", "", "b"))]}
        assert '"content": "a\\nb"' in prompt(body)
        assert '"content": [{"type": "text", "text": "a"}' in prompt(body, TEMPLATES["parts"])
        assert '"text": "u"}]' in prompt({"messages": [U]}, TEMPLATES["parts"])
        assert '"content": "r"' in prompt({"messages": [result(texts("r"))]}, TEMPLATES["parts"])

    def test_the_option_for_parts_goes_before_what_is_found(self) -> None:
        for form, content in (("string", "u"), ("openai", [{"type": "text", "text": "u"}])):
            for source in (MIRROR, TEMPLATES["parts"]):
                (message,) = seen(U, how=dialect(content_format=form), source=source)
                assert message["content"] == content

    def test_a_developer_is_a_system_and_all_systems_are_one(self) -> None:
        late: Message = {"role": "developer", "content": "late"}
        assert seen(system("s"), U, late, U) == [
            {"role": "system", "content": "s\n\nlate"},
            *({"role": "user", "content": "u"} for _ in range(2)),
        ]
        assert [each["role"] for each in seen(system("s"), U, system("s2"))] == [
            *("system", "user", "system"),
        ]
        kept = seen(U, late, source=TEMPLATES["developer"])
        assert kept[1] == {**late, "tools": None}

    def test_what_claude_code_bills_is_dropped(self) -> None:
        assert seen(system(f"{HEADER}\nYou"), U)[0]["content"] == "You"
        assert seen(user(f"{HEADER}\nYou"))[0]["content"] == f"{HEADER}\nYou"

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"messages": []},
            {"messages": "x"},
            {"messages": [user(None)]},
            {"messages": [{"content": "x"}]},
            {"messages": [U, called({"a": 1})]},
            {"messages": [U], "tools": []},
            {"messages": [U], "tools": [{"type": "custom"}]},
            {"messages": [U], "chat_template": "x"},
        ],
        ids=str,
    )
    def test_refused(self, body: Body) -> None:
        with pytest.raises(PromptError):
            prompt(body)

    @pytest.mark.parametrize("kind", ["image_url", "input_audio", "video_url", "file"])
    def test_an_image_says_what_to_do(self, kind: str) -> None:
        with pytest.raises(PromptError, match="the server itself"):
            prompt({"messages": [user([{"type": kind, kind: {}}])]})


class TestTools:
    def tools(self, *tools: Any, how: Dialect = VLLM, **said: Any) -> Any:
        text = prompt({"messages": [U], "tools": [*tools], **said}, MIRROR, how)
        return json.loads(text.partition("<T>")[2].partition("<V>")[0])

    def test_keys_in_its_order_and_nulls_for_what_is_missing(self) -> None:
        (tool,) = self.tools({"function": {"strict": True, "name": "g", "x": 1}, "y": 1})
        assert json.dumps(tool) == json.dumps(
            {
                "type": "function",
                "function": {"name": "g", "description": None, "parameters": None, "strict": True},
            }
        )
        (tool,) = self.tools(function(strict=None))
        assert "strict" not in tool["function"]

    def test_a_schema_is_left_as_it_is(self) -> None:
        schema = {"z": 1.0, "a": {"y": None, "b": [1e-9]}}
        (tool,) = self.tools(function(parameters=schema))
        assert json.dumps(tool["function"]["parameters"]) == json.dumps(schema)

    def test_none_may_be_called(self) -> None:
        """They stay in the prompt unless the server is told otherwise."""
        assert len(self.tools(*TOOLS, tool_choice="none")) == len(TOOLS)
        without = dialect(exclude_tools_when_tool_choice_none=True)
        assert self.tools(*TOOLS, how=without, tool_choice="none") is None
        assert len(self.tools(*TOOLS, how=without)) == len(TOOLS)


class TestVariables:
    @pytest.mark.parametrize(
        ("said", "printed"),
        [
            ({}, "[True, 0, 0]"),
            ({"add_generation_prompt": False}, "[False, 0, 0]"),
            ({"reasoning_effort": "high"}, "[True, True, 0]"),
            ({"reasoning_effort": "none"}, "[True, False, 0]"),
            (
                {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
                "[True, True, 0]",
            ),
            ({"chat_template_kwargs": {"foo": 1, "bar": 2}}, "[True, 0, 1]"),
            ({"chat_template_kwargs": {"foo": None}}, "[True, 0, 0]"),
            ({"chat_template_kwargs": {"foo": "auto"}}, "[True, 0, 0]"),
            ({"chat_template_kwargs": {"add_generation_prompt": False}}, "[True, 0, 0]"),
        ],
        ids=str,
    )
    def test_what_a_request_says(self, said: Body, printed: str) -> None:
        assert prompt({"messages": [U], **said}, VARIABLES) == printed

    def test_options_of_the_server_are_defaults(self) -> None:
        how = dialect(template_kwargs={"foo": "option", "enable_thinking": False})
        assert prompt({"messages": [U]}, VARIABLES, how) == "[True, False, 'option']"
        said = {"chat_template_kwargs": {"foo": "request"}}
        assert prompt({"messages": [U], **said}, VARIABLES, how) == "[True, False, 'request']"

    def test_the_last_message_may_stay_open(self) -> None:
        source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}"
        body = {
            "messages": [U, reply("half ")],
            "add_generation_prompt": False,
            "continue_final_message": True,
        }
        assert prompt(body, source) == "<user>u</>\n<assistant>half "
        with pytest.raises(PromptError, match="add_generation_prompt"):
            prompt({**body, "add_generation_prompt": True}, source)

    def test_special_tokens_are_added_only_if_a_request_asks(self) -> None:
        template = ChatTemplate(MIRROR)
        for said, added in (({}, False), ({"add_special_tokens": True}, True)):
            assert VLLM.prompt({"messages": [U], **said}, template, Edges()).add_special is added


LOOP = "{% for m in messages %}"
PARTS = "{% for p in "
END = " %}{% endfor %}{% endfor %}"


class TestParts:
    """Found in the template's text, as vLLM finds it: does it go through a message's content?"""

    @pytest.mark.parametrize(
        "source",
        [
            f"{LOOP}{PARTS}m['content']{END}",
            f"{LOOP}{PARTS}m.content{END}",
            f"{LOOP}{PARTS}m.content|selectattr('type', 'equalto', 'text'){END}",
            f"{LOOP}{{% set content = m['content'] %}}{PARTS}content{END}",
            f"{{% set ms = messages[1:] %}}{{% for m in ms %}}{PARTS}m.content{END}",
            f"{{% for m in messages|list %}}{PARTS}m.content{END}",
            "{% set content = messages[0]['content'] %}{% for p in content %}{% endfor %}",
            f"{{% macro show(m) %}}{{{{ m }}}}{{% endmacro %}}{LOOP}{PARTS}m.content{END}",
        ],
    )
    def test_taken(self, source: str) -> None:
        assert takes_parts(ChatTemplate(source))

    @pytest.mark.parametrize(
        "source",
        [
            f"{LOOP}{{{{ m.content }}}}{{% endfor %}}",
            f"{LOOP}{{% set c = m['content'] %}}{PARTS}c{END}",
            f"{LOOP}{{{{ m.content|map(attribute='text')|join }}}}{{% endfor %}}",
            f"{{% for i in range(3) %}}{PARTS}messages[i].content{END}",
            f"{{% for t in tools %}}{PARTS}t['content']{END}",
        ],
    )
    def test_not_taken(self, source: str) -> None:
        assert not takes_parts(ChatTemplate(source))
