"""What does llama.cpp make of a request before its template sees it, and how does its engine render?

Everything is asked of a real server too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kvagent.backends.llamacpp_jinja import adapt
from kvagent.backends.llamacpp_prompt import CHATML, LLAMACPP, abilities_of, dialect, mend
from kvagent.backends.prompt import Dialect, Edges, PromptError
from kvagent.tokens.template import ChatTemplate, TemplateError
from tests.tokens.chats import BODIES, TOOLS, Body, Message, call, reply, result, texts, user
from tests.tokens.llamacpp import Running, running, tiny_smollm2

EMBEDDED = dialect()
"""The server as the demo starts it: none of llama-server's own defaults."""

EDGES = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}

MIRROR = """
{%- for m in messages %}[{{ m|tojson }}]{% endfor -%}
{{- '<T>' + (tools|tojson) if tools is defined and tools else '' -}}
<V>{{ [preserve_thinking|default('-'), clear_thinking|default('-'),
truncate_history_thinking|default('-'), drop_thinking|default('-'), reasoning_effort|default('-'),
reasoning_strength|default('-'), preserve_reasoning|default('-'),
documents|default('-'), add_generation_prompt is defined, bos_token, eos_token, tools is defined,
date_string, datetime, foo|default('-')]|string }}
{%- if add_generation_prompt %}A:{% endif %}"""
"""Prints all that it is given."""

SHAPES = {
    "typed": """{%- for m in messages %}<{{ m.role }}>{% for p in m.content %}
{%- if p.type == 'text' %}{{ p.text }}|{% endif %}{% endfor %}{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif %}""",
    "both": """{%- for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}
{%- else %}{% for p in m.content %}{{ p.text }}|{% endfor %}{% endif %}{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif %}""",
    "no system": """{%- for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>
{{- m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}""",
    "objects": """{%- for m in messages %}<{{ m.role }}>{{ m.content }}
{%- for c in m.tool_calls %}({{ c.function.name }}{% for k, v in c.function.arguments|items %}
{{- ' ' + k + '=' + (v if v is string else v|tojson) }}{% endfor %}){% endfor %}{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif %}""",
    "thinks": """{%- for m in messages %}<{{ m.role }}>
{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}
{%- endfor -%}
{%- if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% else -%}
<think></think>{% endif %}{% endif %}""",
    "edges": """{{ bos_token }}{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif %}{{ eos_token }}""",
}

U = user("u")


def called(arguments: Any, **more: Any) -> Message:
    return reply(None, tool_calls=[call("f", arguments, "c")], **more)


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "g", **fields}}


def messages(*each: Message) -> Body:
    return {"messages": [*each]}


SAID: list[Body] = [
    {"reasoning_effort": "low"},
    {"reasoning_effort": "none"},
    {"chat_template_kwargs": {"enable_thinking": False, "foo": 1, "date_string": "X"}},
    {"chat_template_kwargs": {"enable_thinking": True, "foo": 1e-7}},
    {"chat_template_kwargs": {"preserve_reasoning": False}},
    {"chat_template_kwargs": {"preserve_reasoning": True}},
    {"chat_template_kwargs": {"reasoning_effort": "high"}},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True},
    {"documents": [{"a": 1}]},
    {"tools": []},
    {"tools": None},
    {"tools": [function(strict=True)], "tool_choice": "none"},
    {"tools": [function(parameters=None)]},
    {"tools": [function(parameters={"m": 0.1, "b": 2**64 - 1, "c": "é\u2028"})]},
    {"tools": TOOLS, "tool_choice": "auto"},
    {"response_format": {"type": "text"}},
]
"""Beside the messages."""

TAKEN: list[Body] = [
    messages(U),
    *(messages(U) | more for more in SAID),
    messages(U, reply("a"), U),
    messages(U, reply("a", reasoning_content="R", reasoning="S", name="n", refusal=None), U),
    messages(U, reply("", tool_calls=[]), U),
    messages(U, reply(None), U),
    messages(U, {"role": "assistant", "tool_calls": [call("f", "{}")]}, U),
    messages(U, reply("x", tool_calls=None), U),
    messages(U, called('{"a":1.0,"b":[1e-7,"x"]}'), U),
    messages(U, called('{"a":1,"a":2,"c":18446744073709551615,"d":9223372036854775808}'), U),
    messages(U, called('{"e":123456789012345678901234567890}'), U),
    messages(U, called({"a": 1}), U),
    messages(U, called('{"a":"\\ud83d\\ude00\\u00e9"}'), result(texts("p1", "p2"), "c"), U),
    messages(U, result("", "c", name="f"), U),
    messages(U, {"role": "tool", "content": None}, U),
    messages(user(texts("a", "b"))),
    messages(user([])),
    messages(user(None)),
    messages({"role": "developer", "content": "d"}, U),
    messages({"role": "strange", "content": "d"}, U),
    messages({"role": "system", "content": "s"}, U, {"role": "system", "content": "s2"}),
    messages(),
]

CONTINUED: list[Body] = [
    messages(U, reply("half ")),
    messages(U, reply(texts("ha", "", "lf"))),
    messages(U, reply("half")) | {"add_generation_prompt": True},
    messages(U, reply("half")) | {"continue_final_message": False},
    messages(U, reply("half")) | {"continue_final_message": True, "add_generation_prompt": False},
]
"""The last message is the model's own, and it goes on with it."""

REFUSED: list[Body] = [
    {"messages": [U], "chat_template_kwargs": {"enable_thinking": "no"}},
    {"messages": [U], "tools": [function(description=None)]},
    {"messages": [U], "tools": [{"function": {"name": "g"}}]},
    {"messages": [U], "tools": [{"type": "function", "function": {"description": "no name"}}]},
    {"messages": [U], "continue_final_message": True},
    messages(U, reply("a", reasoning_content=None), U),
    messages(U, reply("x"), reply("y")),
    messages(U, called("{}")),
    messages(user(["x"])),
    messages(user([{"type": "input_text", "text": "a"}])),
    messages(user([{"type": "image_url", "image_url": {"url": "data:,"}}])),
    messages({"role": "user"}),
    messages({"content": "x"}),
    {},
]

NOT_JSON = ["{bad", "", "{'a': 1}", '{"a": NaN}', '{"a": 1e999}']


def made(source: str, how: Dialect = EMBEDDED) -> ChatTemplate:
    return ChatTemplate(how.mend(source), EDGES, adapt=how.adapt)


def prompt(
    body: Body, source: str = MIRROR, how: Dialect = EMBEDDED, edges: Edges | None = None
) -> str:
    found = how.prompt(body, made(source, how), edges or Edges())
    assert found.add_special
    return found.text


def attempted(body: Body, source: str) -> str | None:
    try:
        return prompt(body, source)
    except (PromptError, TemplateError):
        return None


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_smollm2(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def mirror(tiny: Path) -> Iterator[Running]:
    """A server whose template prints all that it is given."""
    file = tiny.with_name("mirror.jinja")
    file.write_text(MIRROR, encoding="utf-8")
    with running(tiny, file) as server:
        yield server


class TestAgainstTheServer:
    @pytest.mark.parametrize("body", TAKEN, ids=str)
    def test_taken(self, mirror: Running, body: Body) -> None:
        assert prompt(body) == mirror.prompt(body)

    @pytest.mark.parametrize("body", REFUSED, ids=str)
    def test_refused(self, mirror: Running, body: Body) -> None:
        assert mirror.prompt(body) is None
        with pytest.raises(PromptError):
            prompt(body)

    @pytest.mark.parametrize("name", SHAPES)
    def test_other_templates(self, tiny: Path, name: str) -> None:
        """What a template takes is found out, and what it gets is changed."""
        file = tiny.with_name("shape.jinja")
        file.write_text(SHAPES[name], encoding="utf-8")
        with running(tiny, file) as server:
            theirs = [server.prompt(body) for body in BODIES]
        assert [attempted(body, SHAPES[name]) for body in BODIES] == theirs
        assert any(theirs)

    def test_a_reply_is_gone_on_with(self, tiny: Path) -> None:
        with running(tiny) as server:
            theirs = [server.prompt(body) for body in CONTINUED]
        assert [prompt(body, CHATML) for body in CONTINUED] == theirs

    def test_arguments_that_are_no_json(self, tiny: Path) -> None:
        """Refused where they are parsed."""
        file = tiny.with_name("objects.jinja")
        file.write_text(SHAPES["objects"], encoding="utf-8")
        bodies = [messages(U, called(each), result("r", "c")) for each in NOT_JSON]
        with running(tiny, file) as server:
            assert [server.prompt(body) for body in bodies] == [None] * len(bodies)
        for body in bodies:
            with pytest.raises(PromptError, match="no JSON"):
                prompt(body, SHAPES["objects"])


class TestRules:
    def test_unknown_keys_are_dropped_and_the_others_put_in_order(self) -> None:
        body = messages({"extra": 1, "name": "n", "content": "a", "role": "user"})
        assert prompt(body).startswith('[{"role": "user", "content": "a", "name": "n"}]')

    def test_tools_are_rebuilt(self) -> None:
        own = {"strict": True, "parameters": {"z": 1.0, "a": None}, "name": "g"}
        body = {"messages": [U], "tools": [{"function": own, "type": "function", "x": 1}]}
        assert (
            '<T>[{"type": "function", "function": {"name": "g", "description": "", '
            '"parameters": {"z": 1, "a": null}}}]<V>' in prompt(body)
        )

    def test_arguments_stay_a_text_unless_the_template_wants_an_object(self) -> None:
        written = '{"b":1.50,"a":"x"}'
        body = messages(U, called(written), result("r", "c"))
        text = "{% for m in messages %}{{ m.tool_calls[0].function.arguments }}{% endfor %}"
        assert prompt(body, text) == written
        assert "(f b=1.5 a=x)" in prompt(body, SHAPES["objects"])

    def test_a_developer_is_a_system(self) -> None:
        said = prompt(messages({"role": "developer", "content": "d"}, U))
        assert '"role": "system"' in said
        assert "developer" not in said

    def test_a_system_that_the_template_overlooks_goes_before_the_next_text(self) -> None:
        body = messages({"role": "system", "content": "Be brief."}, U)
        assert prompt(body, SHAPES["no system"]) == "<user>Be brief.\nu<assistant>"

    def test_parts_are_joined_for_a_template_of_texts(self) -> None:
        body = messages(user(texts("a", "b")))
        assert prompt(body, SHAPES["no system"]) == "<user>a\nb<assistant>"
        assert prompt(body, SHAPES["typed"]) == "<user>a|b|<assistant>"
        assert prompt(messages(U), SHAPES["typed"]) == "<user>u|<assistant>"

    def test_only_one_name_for_reasoning(self) -> None:
        said = prompt(messages(U, reply("a", reasoning_content="one", reasoning="two"), U))
        assert "one" in said
        assert "two" not in said

    def test_thinking_is_on_where_the_template_thinks(self) -> None:
        assert prompt(messages(U), SHAPES["thinks"]).endswith("<assistant><think>")
        for off in (
            {"reasoning_effort": "none"},
            {"chat_template_kwargs": {"enable_thinking": False}},
        ):
            said = prompt({"messages": [U], **off}, SHAPES["thinks"])
            assert said.endswith("<assistant><think></think>")

    def test_switches_that_keep_reasoning_are_on_by_default(self) -> None:
        """``llama-server`` sets them, the embedded server does not; a request goes before both."""
        source = "{{ preserve_thinking }} {{ clear_thinking }}{% for m in messages %}{% endfor %}"
        assert prompt(messages(U), source, LLAMACPP) == "True False"
        off = {"chat_template_kwargs": {"preserve_reasoning": False}}
        assert prompt({"messages": [U], **off}, source, LLAMACPP) == "False True"
        assert prompt(messages(U), source).strip() == ""

    def test_today_is_given(self) -> None:
        today = datetime(2027, 3, 4).astimezone()
        template = ChatTemplate(MIRROR, EDGES, adapt=adapt, now=lambda: today)
        said = EMBEDDED.prompt(messages(U), template, Edges()).text
        assert "'04 Mar 2027', 'Mar 04 2027'" in said

    def test_options_of_the_server_are_defaults(self) -> None:
        how = dialect({"foo": "option"})
        assert "'option']" in prompt(messages(U), MIRROR, how)
        body = {"messages": [U], "chat_template_kwargs": {"foo": "request"}}
        assert "'request']" in prompt(body, MIRROR, how)

    def test_what_the_tokenizer_adds_is_taken_off(self) -> None:
        edges = Edges("<|im_start|>", "<|im_end|>")
        assert prompt(messages(U), SHAPES["edges"], edges=edges) == "<user>u<assistant>"
        assert prompt(messages(U), SHAPES["edges"]) == "<|im_start|><user>u<assistant><|im_end|>"

    def test_a_reply_at_the_end_is_gone_on_with(self) -> None:
        said = prompt(messages(U, reply("half ")), CHATML)
        assert said == "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\nhalf "

    def test_what_a_model_that_thinks_goes_on_with_is_not_known(self) -> None:
        with pytest.raises(PromptError, match="the user's or a tool's"):
            prompt(messages(U, reply("half ")), SHAPES["thinks"])

    def test_the_body_is_left_as_it_is(self) -> None:
        source = "{% for m in messages %}{% set _ = m.update({'content': 1}) %}{% endfor %}"
        body = messages(U, called('{"a": [1]}'), result("r", "c"))
        before = repr(body)
        attempted(body, source)
        prompt(body)
        assert repr(body) == before

    @pytest.mark.parametrize("part", ["image_url", "input_audio", "video_url"])
    def test_an_image_says_what_to_do(self, part: str) -> None:
        with pytest.raises(PromptError, match="the server itself"):
            prompt(messages(user([{"type": part, part: {}}])))

    def test_models_whose_messages_are_rewritten_in_ways_not_known(self) -> None:
        source = "<|tool_list_start|><|tool_list_end|>{{ messages[0].content }}"
        with pytest.raises(PromptError, match="LFM2"):
            prompt(messages(U), source)

    def test_abilities_are_learnt_once(self) -> None:
        template = made(SHAPES["typed"])
        assert abilities_of(template) is abilities_of(template)
        assert abilities_of(template).parts
        assert not abilities_of(template).text

    def test_refusals_in_two_templates_are_taken_out(self) -> None:
        refusal = (
            "{%- if (message['content'] is none or message['content'] == '' or "
            "message['content']|length == 0) and (message['tool_calls'] is not defined or "
            "message['tool_calls'] is none or message['tool_calls']|length == 0) %}"
        )
        assert mend(f"[TOOL_CALLS]{refusal}no{{%- endif %}}") == (
            "[TOOL_CALLS]{%- if false %}no{%- endif %}"
        )
        assert mend(MIRROR) == MIRROR


VALUES: dict[str, Any] = {
    "null": None, "f": 3.14159265, "one": 1.0, "tiny": 1e-7, "big": 1e20, "mid": 123456789.5,
    "i": 5, "neg": -3, "huge": 2**63 - 1, "t": True, "s": "héllo", "sp": " \u00a0a b\u2028 ",
    "l": [1, "two", None, 2.5, {"k": "it's"}], "e": {}, "el": [], "up": "ÄbC ß", "es": "",
    "d": {"b": 1, "a": [1.5, "x\ny"], "q": "'"}, "x1f": "\x1ca\x1c", "dot": "a.b.c",
    "number": "1.50",
}  # fmt: skip

EXPRESSIONS = r"""
v.null; v.f; v.one; v.tiny; v.big; v.mid; v.t; v.l; v.d; v.e; v.el; v.missing; v.missing.deeper
'a' ~ v.f; 'a' + v.i; 'a' ~ v.null; 'a' + v.missing; v.null ~ 'a'; 'a' ~ v.t; 'a' ~ v.d
'a' + v.l; v.i + v.f; v.i + v.i; v.l + v.l; v.s ~ v.s; v.f|string; v.tiny|string; v.i|string
v.t|string; v.d|string; v.l|string; v.missing|string; v.f|tojson; v.l|tojson
v.d|tojson(indent=2); v.null|tojson; v.huge|tojson; v.s|tojson(ensure_ascii=true)
v.d|tojson(separators=(',',':')); v.sp|trim; v.sp.strip(); v.sp.lstrip(); v.sp.rstrip()
v.x1f|trim; v.s|length; v.l|length; v.d|length; v.missing|length; v.s|upper; v.up|lower
v.up.upper(); v.up|title; v.up|capitalize; v.s[0]; v.s[1]; v.s[1:3]; v.s[-1]; v.l[::-1]; v.l[1:]
v.l[:-1]; v.l[-1]; v.l[9]; v.null|default('x'); v.missing|default('x'); v.es|default('x')
v.es|default('x', true); v.null is none; v.missing is none; v.missing is defined
v.d is iterable; v.d is mapping; v.s is iterable; v.s is sequence; v.l is sequence
v.t is number; v.f is number; v.i is integer; v.t is boolean; v.null is string
v.missing is iterable; v.sp.split(); v.dot.split('.'); v.dot.split('.',1); v.dot.rsplit('.',1)
v.dot.replace('.','-'); v.dot|replace('.','-'); v.dot.startswith('a'); v.dot.endswith('c')
v.dot.split('.')|join('-'); v.d.items(); v.d|items; v.d.keys(); v.d.get('b'); v.d.get('zz')
v.d.get('zz', 7); v.l|first; v.l|last; [{'a':1},{'a':2}]|map(attribute='a')|list
[{'a':1},{'a':2}]|selectattr('a','equalto',2)|list; [3,1,2]|sort; [1,2]|reverse|list; 'b' in v.d
'x' in v.missing; 'x' not in v.missing; 'él' in v.s; 1 in v.l; 1 == 1.0; v.t == 1; '1' == 1
v.null == v.missing; v.missing == ''; v.null == none; 7 / 2; 7 % 3; -7 % 3; v.number|float
'12'|int; 3.9|int; v.i|abs; v.s|safe; (1,2); [1,'a']; {'a':1}; not v.el; not v.e
v.s if v.el else 'no'; v.s and v.i; v.el or 'x'; v.s|indent(2); range(3)|list; v.l is string
v.up.title(); v.dot.strip('a'); v.dot.lstrip('a.'); v.d['b']; namespace(a=1).a; v.big ~ ''
v.i > 3 and v.f < 4; none; true; [none]; [[1,2],[3]]; [v.missing]|tojson; [v.missing, 1]
'a' if true; 'É'.lower(); 'é'.upper(); 'éa b'|title; v.d == {'b':1}; [1,2] == [1,2]
v.l|tojson|length; 0.1+0.2; (0.1+0.2)|tojson; 1/3; 100000.0*10; 'a\nb'; 'a\'b'
[v.missing]|string; [v['x']]|string; [v.missing.deeper]|string; [v.l[9]]|string
{'k':v.s.nope}|string; [[]|first]|string
"""
"""What chat templates do, and how an engine may differ in it."""

REFUSED_EXPRESSIONS = """
v.f ~ v.i; v.null + v.null; v.missing + v.missing; v.t ~ v.f; v.missing|tojson; v.missing()
v.d|tojson(sort_keys=true); v.d|default('x'); v.d|list; v.dot|join('-'); v.l|unique|list
'<a>'|escape
"""


BETWEEN = "\N{SYMBOL FOR UNIT SEPARATOR}"


def test_the_engine(tiny: Path) -> None:
    """Every expression gives the same text."""
    lines = [line.split("; ") for line in EXPRESSIONS.strip().split("\n")]
    ours, theirs = both(tiny, [f" }}}}{BETWEEN}{{{{ ".join(line) for line in lines])
    named = [dict(zip(line, (text or "").split(BETWEEN), strict=True))
             for line, text in zip(lines, theirs, strict=True)]  # fmt: skip
    for expressions, text in zip(named, ours, strict=True):
        assert dict(zip(expressions, (text or "").split(BETWEEN), strict=True)) == expressions


def test_what_the_engine_refuses(tiny: Path) -> None:
    refused = REFUSED_EXPRESSIONS.strip().replace("\n", "; ").split("; ")
    ours, theirs = both(tiny, refused)
    assert {*ours, *theirs} == {None}


def both(tiny: Path, printed: list[str]) -> tuple[list[str | None], list[str | None]]:
    """What is printed here and by the server."""
    branches = "".join(f"{{% elif at == {at} %}}{{{{ {it} }}}}" for at, it in enumerate(printed))
    source = (
        "{%- for m in messages %}{{ m.role + ':' + m.content }}\n{%- endfor -%}"
        f"{{%- if at is not defined %}}{branches}{{% endif %}}"
        "{%- if add_generation_prompt %}\x1eA:{% endif %}"
    )
    file = tiny.with_name("engine.jinja")
    file.write_text(source, encoding="utf-8")
    bodies = [
        messages(U) | {"chat_template_kwargs": {"v": VALUES, "at": at}}
        for at in range(len(printed))
    ]
    with running(tiny, file) as server:
        theirs = [server.prompt(body) for body in bodies]
    return [attempted(body, source) for body in bodies], theirs
