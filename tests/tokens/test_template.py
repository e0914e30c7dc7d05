"""Does a template render as in the servers?"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from kvagent.tokens.template import ChatTemplate, TemplateError

MESSAGES = [{"role": "user", "content": "Hi"}]


def rendered(source: str, **variables: Any) -> str:
    return ChatTemplate(source).render(MESSAGES, variables=variables)


def test_blocks_are_trimmed() -> None:
    source = "a\n  {% if true %}\nb\n  {% endif %}\nc\n"
    assert rendered(source) == "a\nb\nc"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("x|tojson", '{"z": 1.0, "a": "<é\'&>", "n": null}'),
        ("x|tojson(indent=2)", '{\n  "z": 1.0,\n  "a": "<é\'&>",\n  "n": null\n}'),
        ("x|tojson(ensure_ascii=true)", '{"z": 1.0, "a": "<\\u00e9\'&>", "n": null}'),
        ("x|tojson(separators=(',', ':'))", '{"z":1.0,"a":"<é\'&>","n":null}'),
        ("x|tojson(sort_keys=true)", '{"a": "<é\'&>", "n": null, "z": 1.0}'),
    ],
)
def test_json(call: str, text: str) -> None:
    """The order of keys stays, and nothing is escaped for HTML."""
    assert rendered(f"{{{{ {call} }}}}", x={"z": 1.0, "a": "<é'&>", "n": None}) == text


def test_loop_controls() -> None:
    source = "{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    assert rendered(source) == "1"


def test_what_the_model_wrote_is_only_marked() -> None:
    assert rendered("<{% generation %}{{ messages[0].content }}{% endgeneration %}>") == "<Hi>"


def test_the_clock() -> None:
    template = ChatTemplate(
        "{{ strftime_now('%d %b %Y') }}", now=lambda: datetime(2027, 3, 4, tzinfo=UTC)
    )
    assert template.render(MESSAGES) == "04 Mar 2027"


def test_variables_of_the_request_go_before_the_templates_own() -> None:
    template = ChatTemplate(
        "{{ bos_token }}{{ tools }}{{ add_generation_prompt }}", {"bos_token": "<s>"}
    )
    assert template.render(MESSAGES) == "<s>NoneTrue"
    variables = {"bos_token": "<b>"}
    assert template.render(MESSAGES, [], add_generation_prompt=False, variables=variables) == (
        "<b>[]False"
    )


def test_fill_defines_nothing_else() -> None:
    template = ChatTemplate("{{ tools is defined }} {{ messages is defined }}")
    assert template.fill({}) == "False False"


def test_variables_that_a_request_may_give() -> None:
    source = "{% set x = 1 %}{{ x }}{{ enable_thinking }}{% for m in messages %}{{ m }}{% endfor %}"
    assert ChatTemplate(source).undeclared == {"enable_thinking", "messages"}


class TestErrors:
    def test_the_templates_own_words(self) -> None:
        with pytest.raises(TemplateError, match=r"^Roles must alternate$"):
            rendered("{{ raise_exception('Roles must alternate') }}")

    @pytest.mark.parametrize("source", ["{{ missing.deeper }}", "{{ 1 / 0 }}", "{{ messages() }}"])
    def test_whatever_comes_out_of_it(self, source: str) -> None:
        with pytest.raises(TemplateError):
            rendered(source)

    def test_no_template(self) -> None:
        with pytest.raises(TemplateError):
            ChatTemplate("{% if %}")

    @pytest.mark.parametrize(
        "source",
        ["{{ messages.append(1) }}", "{{ messages.__class__.__base__.__subclasses__() }}"],
    )
    def test_a_template_cannot_break_out(self, source: str) -> None:
        with pytest.raises(TemplateError):
            rendered(source)


def test_one_template_in_many_threads() -> None:
    template = ChatTemplate(
        """{% set ns = namespace(text='') %}
{%- for m in messages %}{% set ns.text = ns.text + m %}{% endfor %}{{ ns.text }}"""
    )
    found: dict[int, set[str]] = {}

    def work(number: int) -> None:
        messages: Any = [str(number)] * 20
        found[number] = {template.render(messages) for _ in range(50)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: {str(number) * 20} for number in range(8)}
