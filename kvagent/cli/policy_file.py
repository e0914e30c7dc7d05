"""What policy does a file state?

TOML or JSON with the names of ``kvagent.Policy``. A stage is switched off by null in JSON, and by
``false`` or ``"off"`` in both: TOML has no null.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from kvagent import Policy
from kvagent.cli.failure import Failure, because

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def read_policy(path: Path | None, fields: Sequence[str] = ()) -> Policy:
    """The policy in a file, and fields such as ``clear.keep=5``, which go before the file's.

    ``Failure`` names the file, the field and what is wrong with it.
    """
    settings = _with_switches(_settings(path) if path is not None else {})
    for field in fields:
        _set(settings, field)
    try:
        return Policy.model_validate(settings)
    except ValidationError as error:
        faults = "; ".join(_sentence(details) for details in error.errors())
        where = "the policy" if path is None else f"the policy {path}"
        raise Failure(f"{where} does not hold: {faults}") from error


def _set(settings: dict[str, Any], field: str) -> None:
    name, equals, text = field.partition("=")
    names = [part.strip() for part in name.split(".")]
    if not equals or not all(names):
        raise Failure(f"--set {field}: write NAME=VALUE, such as clear.keep=5 or compact=off")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    table = settings
    for part in names[:-1]:
        inner = table.get(part)
        table[part] = inner = dict(inner) if isinstance(inner, dict) else {}
        table = inner
    table[names[-1]] = _switched(value) if names == [names[0]] and names[0] in _STAGES else value


def _settings(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Failure(f"cannot read the policy {path}: {because(error)}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"the policy {path} is not UTF-8") from error
    return _from_json(path, text) if _is_json(path, text) else _from_toml(path, text)


def _is_json(path: Path, text: str) -> bool:
    extension = path.suffix.lower()
    return extension == ".json" or (extension != ".toml" and text.lstrip()[:1] == "{")


def _from_json(path: Path, text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise Failure(
            f"the policy {path} is not JSON: {error.msg} in line {error.lineno}, "
            f"character {error.colno}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"the policy {path} is no JSON that can be read: {error}") from error
    if not isinstance(settings, dict):
        raise Failure(f'the policy {path} is not an object, such as {{"evict": null}}')
    return settings


def _from_toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(f"the policy {path} is not TOML: {error}") from error


def _with_switches(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _switched(value) if name in _STAGES else value for name, value in settings.items()
    }


def _switched(value: Any) -> Any:
    """What a stage is set to: None where it is off, its defaults where it is on."""
    if value is False or value == "off":
        return None
    return {} if value is True or value == "on" else value


def _is_stage(annotation: Any) -> bool:
    kinds = get_args(annotation)
    return type(None) in kinds and any(
        isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds
    )


_STAGES = frozenset(
    name for name, field in Policy.model_fields.items() if _is_stage(field.annotation)
)


def _sentence(fault: ErrorDetails) -> str:
    names = [str(part) for part in fault["loc"]]
    field = ".".join(names)
    if fault["type"] == "extra_forbidden":
        return f"{field} is no setting, {_known(names)}"
    if fault["type"] in ("model_type", "model_attributes_type", "dict_type"):
        off = ', or "off"' if field in _STAGES else ""
        return f"{field} should be a table of settings{off}, not {_shown(fault)}"
    reason = (
        fault["msg"].removeprefix("Value error, ").replace("a valid tuple", 'a list like ["a"]')
    )
    if reason.startswith("Input should "):
        return f"{field} {reason.removeprefix('Input ')}, not {_shown(fault)}"
    return f"{field}: {reason}"


def _known(names: list[str]) -> str:
    """What could have been meant, or all that there is."""
    model: type[BaseModel] = Policy
    for name in names[:-1]:
        kinds = get_args(model.model_fields[name].annotation) or (
            model.model_fields[name].annotation,
        )
        model = next(kind for kind in kinds if issubclass(kind, BaseModel))
    close = get_close_matches(names[-1], model.model_fields, n=1)
    if close:
        return "was " + ".".join([*names[:-1], close[0]]) + " meant?"
    if not model.model_fields:
        return f"{'.'.join(names[:-1])} has none"
    return "there are " + ", ".join(sorted(model.model_fields))


def _shown(fault: ErrorDetails) -> str:
    text = repr(fault["input"])
    return text if len(text) <= 40 else text[:37] + "..."
