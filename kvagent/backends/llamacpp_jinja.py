"""How does llama.cpp's own template engine differ from jinja2?

Templates are written for jinja2, and llama.cpp renders them with an engine of its own: numbers
print in another way, blanks are ASCII blanks, what is missing is more forgiving, lists may be
changed. `adapt` makes a jinja2 environment do the same, as far as chat templates use it.

One difference stays: there a variable set in one pass of a loop is still set in the next one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes

# What it calls a thing that is missing where no variable is.
_PROPERTY = "object_property"

# What C's isspace takes for a blank.
_BLANK = " \t\n\v\f\r"


class WatchedDict(dict[str, Any]):
    """An object that remembers which of its values a template used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()


class WatchedList(list[Any]):
    """A list that remembers whether a template took it for one."""

    read = False


class WatchedText(str):
    """A text that remembers whether a template took it for a list."""

    __slots__ = ("read",)

    def __init__(self, _: str) -> None:
        self.read = False


def adapt(environment: jinja2.Environment) -> None:
    """Make a sandboxed ``environment`` render as llama.cpp does."""
    from jinja2 import ChainableUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment.undefined = ChainableUndefined
    environment.finalize = _printed
    shared = {name: environment.filters[name] for name in _SHARED_FILTERS}
    environment.filters = {**shared, **_FILTERS}
    environment.tests["number"] = _is_number
    own = environment._parse, environment.getattr, environment.getitem
    overrides: Mapping[str, Any] = {
        "_parse": lambda *source: _rewritten(own[0](*source), environment),
        "getattr": lambda value, name: _attribute(environment, value, name, own[1]),
        "getitem": lambda value, key: _item(environment, value, key, own[2]),
        "intercepted_binops": frozenset({"+", "%"}),
        "call_binop": lambda _, operator, left, right: _OPERATORS[operator](left, right),
        # Lists can be changed there; what is rendered is a copy.
        "is_safe_attribute": SandboxedEnvironment.is_safe_attribute.__get__(environment),
    }
    for name, override in overrides.items():
        setattr(environment, name, override)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as its ``tojson`` filter writes it: six digits a number, the order kept."""
    if sort_keys or _is_undefined(value):
        raise TypeError("llama.cpp's tojson sorts no keys and takes no undefined value")
    _use_all(value)
    item, key = separators or ("," if indent is not None else ", ", ": ")

    def lines(parts: Iterable[str], level: int, brackets: str) -> str:
        parts = list(parts)
        if indent is None or not parts:
            return brackets[0] + item.join(parts) + brackets[1]
        pad = "\n" + " " * (indent * level)
        inner = pad + " " * indent
        return brackets[0] + inner + (item + inner).join(parts) + pad + brackets[1]

    def write(value: Any, level: int) -> str:
        if isinstance(value, float):
            return f"{value:g}"
        if isinstance(value, dict):
            members = (
                write(str(name), level) + key + write(each, level + 1)
                for name, each in dict.items(value)
            )
            return lines(members, level, "{}")
        if isinstance(value, list | tuple):
            return lines((write(each, level + 1) for each in value), level, "[]")
        if _is_undefined(value):
            return "null"
        return json.dumps(value, ensure_ascii=bool(ensure_ascii))

    return write(value, 0)


def _is_undefined(value: Any) -> bool:
    from jinja2 import Undefined

    return isinstance(value, Undefined)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _use_all(value: Any) -> None:
    """What is written out as a whole was used, to the last value."""
    if isinstance(value, WatchedDict):
        value.read.update(dict.keys(value))
    if isinstance(value, dict):
        for each in dict.values(value):
            _use_all(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _use_all(each)


# How values become text.


def _text(value: Any) -> str:
    """A value joined to a text, or inside a list that is one."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        text = f"{value:f}".rstrip("0")
        return text + "0" if text.endswith(".") else text
    if isinstance(value, dict):
        pairs = (f"{_quoted(key)}: {_quoted(each)}" for key, each in dict.items(value))
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_quoted, value)) + (",)" if len(value) == 1 else ")")
    if value is None or isinstance(value, int):
        return str(value)
    raise TypeError(f"llama.cpp makes no text of a {type(value).__name__}")


def _quoted(value: Any) -> str:
    if _is_undefined(value):
        return "Undefined" + (f" (hint: '{name}')" if (name := value._undefined_name) else "")
    if not isinstance(value, str):
        return _text(value)
    return json.dumps(value, ensure_ascii=False) if "'" in value else f"'{value}'"


def _printed(value: Any) -> str:
    """What ``{{ value }}`` prints."""
    if isinstance(value, str | int | float):
        return _text(value)
    if isinstance(value, Iterable) and not isinstance(value, dict) and not _is_undefined(value):
        return "".join(map(_printed, value))
    return ""


# Operators.


def _joined(left: Any, right: Any) -> str:
    """``left ~ right``: one of them is a text; what is missing is an empty one."""
    if isinstance(left, str) and (right is None or _is_undefined(right)):
        return left
    if isinstance(right, str) and (left is None or _is_undefined(left)):
        return right
    if isinstance(left, str) or isinstance(right, str):
        return _text(left) + _text(right)
    raise TypeError("llama.cpp joins nothing but texts")


def _sum(left: Any, right: Any) -> Any:
    if _is_number(left) and _is_number(right):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return list(left) + list(right)
    return _joined(left, right)


def _remainder(left: Any, right: Any) -> float | int:
    rest = math.fmod(left, right)
    return rest if isinstance(left, float) or isinstance(right, float) else int(rest)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {"+": _sum, "%": _remainder}


def _rewritten(template: nodes.Template, environment: jinja2.Environment) -> nodes.Template:
    """``~`` and what loops go through become filters, so that they follow its rules."""
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    def filtered(node: nodes.Node, name: str, *arguments: nodes.Node) -> nodes.Filter:
        return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)

    class Rewrite(NodeTransformer):
        def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
            self.generic_visit(node)
            joined: nodes.Expr = node.nodes[0]
            for each in node.nodes[1:]:
                joined = filtered(joined, "~", each)
            return joined

        def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
            self.generic_visit(node)
            pairs = nodes.Const(isinstance(node.target, nodes.Tuple), lineno=node.lineno)
            node.iter = filtered(node.iter, "each", pairs)
            return node

        def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
            self.generic_visit(node)
            if not isinstance(node.arg, nodes.Slice):
                return node
            none = nodes.Const(None, lineno=node.lineno)
            bounds = (node.arg.start, node.arg.stop, node.arg.step)
            return filtered(node.node, "part", *(bound or none for bound in bounds))

        def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802
            self.generic_visit(node)
            if node.name == "selectattr" and node.node is not None:
                node.node = filtered(node.node, "each")
            return node

    Rewrite().visit(template)
    template.set_environment(environment)
    return template


def _part(value: Any, start: int | None, stop: int | None, step: int | None) -> Any:
    """``value[start:stop:step]``; of a text, in bytes."""
    if isinstance(value, str):
        return value.encode()[start:stop:step].decode(errors="replace")
    return value[start:stop:step]


def _each(value: Any, pairs: bool = False) -> Iterable[Any]:
    """What a loop goes through; an object's keys, or its pairs if the loop takes two."""
    if isinstance(value, WatchedList | WatchedText):
        value.read = True
    if isinstance(value, str):
        raise TypeError("llama.cpp goes through no text")
    if isinstance(value, dict):
        _use_all(value)
        return list(dict.items(value) if pairs else dict.keys(value))
    if not isinstance(value, Iterable):
        raise TypeError(f"llama.cpp goes through no {type(value).__name__}")
    return value


# What stands behind a dot and in brackets.


def _attribute(
    environment: jinja2.Environment, value: Any, name: str, own: Callable[[Any, str], Any]
) -> Any:
    if isinstance(value, dict):
        method = _OBJECT_METHODS.get(name)
        return _bound(method, value) if method else _member(environment, value, name)
    if isinstance(value, str):
        method = _TEXT_METHODS.get(name)
    elif isinstance(value, list):
        method = _LIST_METHODS.get(name)
    elif value is None or isinstance(value, int | float | tuple):
        method = None
    elif _is_undefined(value):
        return environment.undefined(name=_PROPERTY)
    else:
        return own(value, name)
    return _bound(method, value) if method else environment.undefined(obj=value, name=name)


def _item(
    environment: jinja2.Environment, value: Any, key: Any, own: Callable[[Any, Any], Any]
) -> Any:
    if isinstance(value, dict):
        return _member(environment, value, key)
    if isinstance(key, int) and isinstance(value, WatchedList | WatchedText):
        value.read = True
    if isinstance(value, str) and isinstance(key, int):
        data = value.encode()  # bytes are counted, and only from the front
        if 0 <= key < len(data):
            return data[key : key + 1].decode(errors="replace")
        return environment.undefined(name=_PROPERTY)
    if _is_undefined(value) or (isinstance(value, list) and _beyond(value, key)):
        return environment.undefined(name=_PROPERTY)
    return own(value, key)


def _beyond(value: list[Any], key: Any) -> bool:
    return isinstance(key, int) and not -len(value) <= key < len(value)


def _member(environment: jinja2.Environment, value: dict[Any, Any], key: Any) -> Any:
    if key not in value:
        return environment.undefined(obj=value, name=str(key))
    if isinstance(value, WatchedDict):
        value.read.add(key)
    return dict.__getitem__(value, key)


def _bound(method: Callable[..., Any], value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: method(value, *args, **kwargs)


def _get(value: dict[Any, Any], key: str, default: Any = None) -> Any:
    if isinstance(value, WatchedDict):
        value.read.add(key)
    return dict.get(value, key, default)


def _items(value: Any) -> list[tuple[Any, Any]]:
    if value is None or _is_undefined(value):
        return []
    _use_all(value)
    return list(dict.items(value))


def _values(value: dict[Any, Any]) -> list[Any]:
    _use_all(value)
    return list(dict.values(value))


def _ascii(change: Callable[[bytes], bytes]) -> Callable[[Any], str]:
    """Letters beyond ASCII have no case there."""

    def changed(value: Any) -> str:
        text = "" if _is_undefined(value) else _text(value)
        return change(text.encode()).decode()

    return changed


def _title(text: bytes) -> bytes:
    words = bytearray(text.lower())
    for at in range(len(words)):
        if at == 0 or chr(words[at - 1]) in _BLANK:
            words[at : at + 1] = words[at : at + 1].upper()
    return bytes(words)


def _strip(value: str, chars: str = _BLANK) -> str:
    return value.strip(chars)


def _lstrip(value: str, chars: str = _BLANK) -> str:
    return value.lstrip(chars)


def _rstrip(value: str, chars: str = _BLANK) -> str:
    return value.rstrip(chars)


def _split(value: str, separator: str = " ", most: int = -1) -> list[str]:
    return value.split(separator, most)


def _rsplit(value: str, separator: str = " ", most: int = -1) -> list[str]:
    return value.rsplit(separator, most)


def _replace(value: Any, old: str, new: str) -> str:
    return "" if _is_undefined(value) else _text(value).replace(old, new)


def _append(value: list[Any], item: Any) -> list[Any]:
    value.append(item)
    return value


_UPPER, _LOWER = _ascii(bytes.upper), _ascii(bytes.lower)
_TITLE, _CAPITALIZE = _ascii(_title), _ascii(bytes.capitalize)

_TEXT_METHODS: Mapping[str, Callable[..., Any]] = {
    "capitalize": _CAPITALIZE,
    "endswith": lambda value, end: value.endswith(end),
    "format": lambda value, *args: value.format(*map(_text, args)),
    "lower": _LOWER,
    "lstrip": _lstrip,
    "replace": _replace,
    "rsplit": _rsplit,
    "rstrip": _rstrip,
    "split": _split,
    "startswith": lambda value, start: value.startswith(start),
    "strip": _strip,
    "title": _TITLE,
    "upper": _UPPER,
}
_OBJECT_METHODS: Mapping[str, Callable[..., Any]] = {
    "get": _get,
    "items": _items,
    "keys": lambda value: list(dict.keys(value)),
    "values": _values,
}
_LIST_METHODS: Mapping[str, Callable[..., Any]] = {
    "append": _append,
    "pop": lambda value, at=-1: value.pop(at),
}


# Filters.


def _default(value: Any, default: Any = "", boolean: bool = False) -> Any:
    if isinstance(value, dict):
        raise TypeError("llama.cpp has no default for an object")
    missing = value is None or _is_undefined(value) or (boolean and not value)
    return default if missing else value


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())  # in bytes
    return 0 if _is_undefined(value) else len(value)


def _string(value: Any) -> str:
    if _is_undefined(value):
        return ""
    _use_all(value)
    return tojson(value) if _is_number(value) else _text(value)


def _trim(value: Any, chars: str = _BLANK) -> str:
    return "" if _is_undefined(value) else _text(value).strip(chars)


def _join(value: Any, d: str = "", attribute: str | int | None = None) -> str:
    if isinstance(value, str | dict):
        raise TypeError("llama.cpp joins lists only")
    parts = list(value) if attribute is None else [part[attribute] for part in value]
    if not all(isinstance(part, str) or _is_number(part) for part in parts):
        raise TypeError("llama.cpp joins texts and numbers only")
    return d.join(map(_text, parts))


def _list(value: Any) -> list[Any]:
    if isinstance(value, str | dict):
        raise TypeError("llama.cpp makes no list of it")
    return list(value)


def _sorted_pairs(value: dict[str, Any], *_: Any, reverse: bool = False) -> list[tuple[str, Any]]:
    return sorted(_items(value), key=lambda pair: pair[0], reverse=reverse)


# Those that do the same in both.
_SHARED_FILTERS = (
    *("abs", "first", "float", "indent", "int", "last", "map", "max", "min"),
    *("reject", "rejectattr", "reverse", "select", "selectattr", "sort"),
)

_FILTERS: Mapping[str, Callable[..., Any]] = {
    "~": _joined,
    "capitalize": _CAPITALIZE,
    "count": _length,
    "d": _default,
    "default": _default,
    "dictsort": _sorted_pairs,
    "each": _each,
    "items": _items,
    "join": _join,
    "length": _length,
    "list": _list,
    "lower": _LOWER,
    "replace": _replace,
    "safe": _string,
    "string": _string,
    "part": _part,
    "strip": _trim,
    "title": _TITLE,
    "tojson": tojson,
    "trim": _trim,
    "upper": _UPPER,
}
