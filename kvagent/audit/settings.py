"""What can be set of an audit, and where is it written down?

On the command line, or as ``[tool.kvagent.audit]`` in the nearest ``pyproject.toml``, with the
options' own names.
"""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

OutputFormat = Literal["terminal", "json", "html", "md", "sarif", "github"]

_FILE = "pyproject.toml"
_TABLE = ("tool", "kvagent", "audit")


class SettingsError(ValueError):
    """What was set does not hold: one sentence that names it and says what would."""


def rate(value: object) -> object:
    """A hit rate as a fraction: ``"90%"`` and ``0.9`` are the same; ``1`` could be either.

    Raises:
        ValueError: it is none, or may mean two things.
    """
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError("should be a share such as 90% or 0.9") from None
    percent = text.endswith("%")
    if not percent and number == 1:
        raise ValueError("may mean two things: write 1% or 100%")
    if not percent and 1 < number <= 100:
        raise ValueError(f"is no fraction: write {number:g}% or {number / 100:g}")
    share = number / 100 if percent else number
    if not 0 <= share <= 1:
        raise ValueError("is no share: write 0% to 100%")
    return share


def _words(value: object) -> object:
    """A list of words, or words with commas between them."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        return value
    return [
        word.strip() if isinstance(word, str) else word
        for part in parts
        for word in (part.split(",") if isinstance(part, str) else [part])
        if not isinstance(word, str) or word.strip()
    ]


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Count = Annotated[int, Field(gt=0)]
Share = Annotated[float, BeforeValidator(rate)]


class Settings(BaseModel):
    """What is set of an audit. What is None is left to the transcript, the model or the server."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"),
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    format: Annotated[str | None, Field(alias="from")] = None
    """The name of the transcripts' format; None: their content says."""

    tokenizer: str | None = None
    """A GGUF file, a Hugging Face folder, or the URL of a running server; None: an estimate."""
    template: str | None = None
    """A file with another chat template than the model's own."""

    server: Literal["vllm", "llama.cpp"] | None = None
    """For which server cached tokens are predicted; None: the one whose URL was given, llama.cpp
    for a GGUF file, else vLLM."""
    block_size: Count | None = None
    """Tokens that vLLM caches together; None: 16."""
    blocks: Annotated[int, Field(ge=2)] | None = None
    """How many blocks vLLM's cache has, one of which it never uses; None: it has room for
    everything."""
    capacity: Count | None = None
    """The same in tokens."""
    slots: Count | None = None
    """Of llama.cpp; None: one."""
    window: Count | None = None
    """Tokens of a prompt and its answer, for llama.cpp those of a slot; None: without end."""
    kv_model: str | None = None
    """The model whose KV cache is weighed, as `kvagent size` takes it; None: the tokenizer's."""
    kv_dtype: str = "f16"
    """The KV cache's data type."""
    tp: Count = 1
    """Ranks of tensor parallelism; bytes are one rank's."""

    select: Words = ()
    """The rules to look for, by code, beginning of a code, or name; none: all."""
    ignore: Words = ()
    """The rules to leave out of these."""

    fail_on: Words = ()
    """``error``, ``warning``, ``note``, or rules as in ``select``: a finding fails the run."""
    min_hit_rate: Share | None = None
    """The share of prompt tokens that the server has to take from its cache, over all files."""
    max_prompt_tokens: Count | None = None
    """The longest prompt that may be sent."""
    baseline: str | None = None
    """A file that says what is known: only what got worse fails the run."""

    output_format: OutputFormat | None = None
    """How the report is written; None: for a terminal, or as the name of the file says."""
    details: bool = False
    """Tell every finding at length."""
    redact: bool = False
    """Replace texts by stand-ins of as many tokens."""
    what_if: bool | None = None
    """Send the same session through kvagent, too; None: unless it is a log of more than 64 MiB."""

    def merged(self, **given: object) -> Settings:
        """These settings, where others go before them; None is not given.

        Raises:
            SettingsError: one does not hold.
        """
        over = {name: value for name, value in given.items() if value is not None}
        made = _made(over, "--", by_name=True)
        return self.model_copy(update={name: getattr(made, name) for name in over})


def settings_of(file: Path | None = None, *, start: Path | None = None) -> Settings:
    """The settings in a ``pyproject.toml``; the default ones where there is none.

    Args:
        file: the one to read, or a TOML file with nothing but these settings; None: the nearest
            one from ``start`` upward that has a table ``[tool.kvagent.audit]``.
        start: the working directory, unless another is given.

    Raises:
        SettingsError: the file cannot be read, or something in it is no setting.
    """
    if file is not None:
        table = _read(file)
        inner = _table(file, table)
        if inner is None and "tool" in table:
            raise SettingsError(f"{file} has no table [{'.'.join(_TABLE)}]")
        return _of_file(file, table if inner is None else inner)
    folder = (start or Path.cwd()).absolute()
    for parent in (folder, *folder.parents):
        candidate = parent / _FILE
        if candidate.is_file():
            inner = _table(candidate, _read(candidate))
            if inner is not None:
                return _of_file(candidate, inner)
    return Settings()


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is not TOML: {error}") from error


def _table(file: Path, values: dict[str, Any]) -> dict[str, Any] | None:
    """The table in a file that has others, too; None: it has no such."""
    table = values
    for depth, name in enumerate(_TABLE, 1):
        if name not in table:
            return None
        table = table[name]
        if not isinstance(table, dict):
            path = ".".join(_TABLE[:depth])
            raise SettingsError(f"{file}: {path} should be a table, not {_shown(table)}")
    return table


def _of_file(file: Path, table: dict[str, Any]) -> Settings:
    settings = _made(table, f"{file}: ", by_name=False)
    # A path in a file is one from that file's folder.
    here = {
        name: os.path.relpath(file.absolute().parent / value)
        for name in ("template", "baseline")
        if isinstance(value := getattr(settings, name), str)
    }
    for name in ("tokenizer", "kv_model"):
        value = getattr(settings, name)
        if isinstance(value, str) and (file.absolute().parent / value).exists():
            here[name] = os.path.relpath(file.absolute().parent / value)
    return settings.merged(**here)


def _made(values: dict[str, Any], where: str, *, by_name: bool) -> Settings:
    try:
        return Settings.model_validate(values, by_alias=not by_name, by_name=by_name)
    except ValidationError as error:
        faults = "; ".join(_sentence(details) for details in error.errors())
        raise SettingsError(f"{where}{faults}") from error


def _sentence(fault: ErrorDetails) -> str:
    name = str(fault["loc"][0]) if fault["loc"] else "it"
    if fault["type"] == "extra_forbidden":
        known = sorted(_NAMES.values())
        close = get_close_matches(name.replace("_", "-"), known, n=1)
        hint = f"was {close[0]} meant?" if close else f"there are {', '.join(known)}"
        return f"{name} is no setting, {hint}"
    name = _NAMES.get(name, name)
    reason = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} {reason}, not {_shown(fault['input'])}"


def _shown(value: object) -> str:
    """A value as far as one can see which it is."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


_NAMES = {name: field.alias or name for name, field in Settings.model_fields.items()}
