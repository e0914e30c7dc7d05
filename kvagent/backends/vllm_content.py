"""Does vLLM hand a message's content to this template as text, or as a list of parts?

It looks for a loop over the content in the template's syntax tree. The rules are vLLM's, including
what they overlook.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvagent.backends.prompt import Template

if TYPE_CHECKING:
    from jinja2 import nodes


class _Unclear(Exception):
    """A form that vLLM does not expect; it then takes text."""


@functools.lru_cache(maxsize=32)
def takes_parts(template: Template) -> bool:
    """Whether the template goes through the parts of a message's content."""
    try:
        return any(True for _ in _loops_over_content(template.tree()))
    except _Unclear:
        return False


def _loops_over_content(tree: nodes.Template) -> Iterator[None]:
    from jinja2 import nodes

    messages = list(_names_of_a_message(tree))

    def is_content(node: nodes.Node | None) -> bool:
        return any(_reads(node, name, "content") for name in messages)

    # A macro may be given the content, under any name of its own.
    in_macros: dict[int, set[str]] = {}
    for macro in tree.find_all(nodes.Macro):
        given = {name for name, node in _arguments(tree, macro) if is_content(node)}
        for loop in macro.find_all(nodes.For):
            if given or id(loop) not in in_macros:
                in_macros[id(loop)] = given
    for loop in tree.find_all(nodes.For):
        name = loop.iter.name if isinstance(loop.iter, nodes.Name) else None
        if is_content(loop.iter) or name in in_macros.get(id(loop), {"content"}):
            _name(loop.target)
            yield


def _arguments(tree: nodes.Template, macro: nodes.Macro) -> Iterator[tuple[str, nodes.Node]]:
    """What the macro is called with, under the names that it has for it."""
    from jinja2 import nodes

    names = [argument.name for argument in macro.args]
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == macro.name:
            yield from zip(names, call.args, strict=False)
            yield from ((each.key, each.value) for each in call.kwargs if each.key in names)


def _names_of_a_message(tree: nodes.Template) -> Iterator[str]:
    from jinja2 import nodes

    lists = list(_names_of_messages(tree))
    for loop in tree.find_all(nodes.For):
        if any(_reads(loop.iter, name) for name in lists):
            yield _name(loop.target)


def _names_of_messages(tree: nodes.Template) -> Iterator[str]:
    from jinja2 import nodes

    yield "messages"
    left = deque(["messages"])
    while left:
        name = left.popleft()
        for assignment in tree.find_all(nodes.Assign):
            if _reads(assignment.node, name):
                target = _name(assignment.target)
                yield target
                if target != name:
                    left.append(target)


def _name(target: nodes.Node) -> str:
    from jinja2 import nodes

    if not isinstance(target, nodes.Name):
        raise _Unclear
    return target.name


def _reads(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Whether it is ``name`` or ``name.key``, or a filter, a test or a part of that."""
    from jinja2 import nodes

    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if key is not None:
        if isinstance(node, nodes.Getitem):
            if not (isinstance(node.arg, nodes.Const) and node.arg.value == key):
                return False
        elif not (isinstance(node, nodes.Getattr) and node.attr == key):
            return False
        node = node.node
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
