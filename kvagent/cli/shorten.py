"""What does a long text become when it is shortened for an agent?

As `Evict` does it to a long tool result on arrival: the same shorteners, without a server.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kvagent.cli.failure import Failure, because
from kvagent.cli.packed import refuse_packed
from kvagent.cli.whole_file import STANDARD
from kvagent.policy import Evict
from kvagent.shorten import Shortened, recognised
from kvagent.tokens.counter import ESTIMATE

_ATTEMPTS = 8  # until the characters hold so many tokens; each comes nearer


def shorten(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The text, in UTF-8. - is standard input.")
    ],
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How long it may be, in characters. Without it: as many tokens as the default "
            "policy keeps of a long tool result in an unknown window.",
        ),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="The budget is in tokens, not in characters.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where the text comes from: a file's name, or the call that made it, as in \"bash "
            'rg -n TODO src". Without it: FILE.',
        ),
    ] = None,
) -> None:
    """Print a text as an agent would get it, shortened by what it holds.

    On stderr: the type as which it was taken, how much of it stands, and its size before and after.
    """
    text = _read(file)
    if source is None and file != STANDARD:
        source = file
    if budget is None or tokens:
        if budget is None:
            budget = Evict().tokens_kept(ESTIMATE.count(text), window=None)
        name, shortened = _in_tokens(text, budget, source)
    else:
        name, shortened = recognised(text, budget, source=source)
    _write(shortened.text)
    typer.echo(_told(name, text, shortened), err=True)


def _in_tokens(text: str, budget: int, source: str | None) -> tuple[str, Shortened]:
    before = ESTIMATE.count(text)
    if before <= budget:
        return recognised(text, len(text), source=source)
    characters = len(text) * budget // before
    for _ in range(_ATTEMPTS):
        name, shortened = recognised(text, characters, source=source)
        after = ESTIMATE.count(shortened.text)
        if after <= budget:
            break
        characters = min(characters - 1, characters * budget // after)
    return name, shortened


def _told(name: str, text: str, shortened: Shortened) -> str:
    """One line: type, what stands, whether anything is lost, and the sizes."""
    if shortened.text == text:
        what = "left as it is"
    elif shortened.lossless:
        what = f"{name}: all {shortened.kept:,} {shortened.unit}, nothing lost"
    else:
        total = shortened.kept + shortened.dropped
        what = f"{name}: {shortened.kept:,} of {total:,} {shortened.unit}"
    counts = ESTIMATE.count(text), ESTIMATE.count(shortened.text)
    return (
        f"{what}; {len(text):,} to {len(shortened.text):,} characters, "
        f"{counts[0]:,} to {counts[1]:,} tokens ({ESTIMATE.name})"
    )


def _read(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == STANDARD else Path(file).read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {file}: {because(error)}") from error
    refuse_packed(content, file, "kvagent shorten")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        name = "standard input" if file == STANDARD else file
        raise Failure(f"{name} is no text in UTF-8: see byte {error.start:,}") from error


def _write(text: str) -> None:
    content = text if text.endswith("\n") or not text else f"{text}\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(content.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
