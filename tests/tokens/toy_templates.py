"""Small chat templates of every kind of behaviour, one or several in one template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_LAST = """
{%- set ns = namespace(last=-1, systems='', later=false) -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- if m.role == 'system' -%}{%- set ns.systems = ns.systems + m.content + '|' -%}{%- endif -%}
{%- endfor -%}
"""


@dataclass(frozen=True, slots=True)
class Toy:
    """What the template does; the defaults keep every prefix."""

    reasoning: Literal["never", "always", "loop", "emptied"] = "always"
    """``emptied``: rendered in the loop that goes on, where there is none as an empty one."""
    switch: str = ""
    """A condition under which all reasoning is kept after all."""
    ask: Literal["plain", "think", "closed"] = "plain"
    """How an answer is asked for; ``closed``: with an empty thought if thinking is off."""
    tools: Literal["head", "first_user", "last_user", "nowhere"] = "head"
    system: Literal["head", "last_user", "joined", "strict", "own"] = "head"
    """``joined``: all at the head; ``strict``: a late one is refused; ``own``: one is made up."""
    results: Literal["apart", "merged", "reopened"] = "apart"
    arguments: Literal["json", "text", "xml", "nowhere"] = "json"
    date: Literal["none", "always", "own", "pinned"] = "none"
    """``own``: in the system message that is made up; ``pinned``: unless the request says which."""
    trims: bool = False
    ids: bool = False
    speaks: Literal["kept", "dropped"] = "kept"
    """What becomes of the words beside a call once the loop is over."""

    def source(self) -> str:
        """The jinja text."""
        return f"{_LAST}{self._head()}{self._messages()}{self._ask()}"

    def _head(self) -> str:
        date = {
            "none": "",
            "own": "",
            "always": "Today is {{ strftime_now('%d.%m.%Y') }}.",
            "pinned": "Today is {{ date_string if date_string is defined else "
            "strftime_now('%d %b %Y') }}.",
        }[self.date]
        own = "You help."
        if self.date == "own":
            own += " Today is {{ strftime_now('%Y-%m-%d') }}."
        system = {
            "head": "{% if messages[0].role == 'system' %}[S]{{ messages[0].content }}{% endif %}",
            "strict": "{% if messages[0].role == 'system' %}[S]{{ messages[0].content }}{% endif %}",
            "own": "[S]{% if messages[0].role == 'system' %}{{ messages[0].content }}{% else %}"
            + own
            + "{% endif %}",
            "joined": "[S]{{ ns.systems }}",
            "last_user": "",
        }[self.system]
        tools = "{% if tools %}[T]{{ tools | tojson }}{% endif %}" if self.tools == "head" else ""
        return f"<s>{date}{system}{tools}\n"

    def _messages(self) -> str:
        text = "{{ m.content | trim }}" if self.trims else "{{ m.content }}"
        tools = {
            "head": "",
            "nowhere": "",
            "first_user": "{% if tools and ns.later == false %}[T]{{ tools | tojson }}{% endif %}"
            "{% set ns.later = true %}",
            "last_user": "{% if tools and loop.index0 == ns.last %}[T]{{ tools | tojson }}"
            "{% endif %}",
        }[self.tools]
        system = (
            "{% if loop.index0 == ns.last and messages[0].role == 'system' %}"
            "[S]{{ messages[0].content }}{% endif %}"
            if self.system == "last_user"
            else ""
        )
        late = {
            "strict": "{{ raise_exception('The system message comes first') }}",
            "joined": "",
        }.get(self.system, "[S]{{ m.content }}\n")
        call_id = "{{ c.id }}" if self.ids else ""
        arguments = {
            "json": "{{ c.function.arguments | tojson }}",
            "text": "{{ c.function.arguments if c.function.arguments is string else "
            "c.function.arguments | tojson }}",
            "xml": "{% for k, v in c.function.arguments.items() %}<{{ k }}>{{ v }}</{{ k }}>"
            "{% endfor %}",
            "nowhere": "",
        }[self.arguments]
        calls = (
            "{% for c in m.tool_calls %}[C]" + call_id + "{{ c.function.name }}" + arguments
            if self.arguments != "nowhere"
            else "{% for c in m.tool_calls %}"
        ) + "{% endfor %}"
        spoken = (
            text
            if self.speaks == "kept"
            else "{% if not m.tool_calls or loop.index0 > ns.last %}" + text + "{% endif %}"
        )
        result = {
            "apart": "[R]" + text + "\n",
            "merged": "{% if loop.previtem.role != 'tool' %}[R]{% endif %}(" + text + ")"
            "{% if loop.last or loop.nextitem.role != 'tool' %}]{% endif %}",
            "reopened": "[R]" + text + "{% if loop.last %}.{% else %};{% endif %}\n",
        }[self.results]
        return (
            "{% for m in messages %}"
            "{% if m.role == 'user' %}[U]" + tools + system + text + "\n"
            "{% elif m.role == 'assistant' %}[A]"
            + self._thought()
            + spoken
            + "{% if m.tool_calls %}"
            + calls
            + "{% endif %}\n"
            "{% elif m.role == 'tool' %}"
            + result
            + "{% elif m.role == 'system' and not loop.first %}"
            + late
            + "{% endif %}{% endfor %}"
        )

    def _thought(self) -> str:
        thought = "<think>{{ m.reasoning_content }}</think>"
        if self.reasoning == "never":
            return ""
        if self.reasoning == "always":
            return "{% if m.reasoning_content %}" + thought + "{% endif %}"
        kept = f"loop.index0 > ns.last or ({self.switch or 'false'})"
        if self.reasoning == "emptied":
            return "{% if " + kept + " %}" + thought + "{% endif %}"
        return "{% if m.reasoning_content and (" + kept + ") %}" + thought + "{% endif %}"

    def _ask(self) -> str:
        opened = {
            "plain": "[A]",
            "think": "[A]<think>",
            "closed": "[A]{% if enable_thinking is defined and not enable_thinking %}"
            "<think></think>{% endif %}",
        }[self.ask]
        return "{% if add_generation_prompt %}" + opened + "{% endif %}"
