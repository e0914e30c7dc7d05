"""Are kvagent's numbers this server's?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvagent.cli.server_options import APIKey, BaseURL, ModelName

if TYPE_CHECKING:
    from kvagent.cli.verify.run import Request


def verify(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Recorded requests, one a line, as for rewrite. - is standard input.",
        ),
    ],
    base_url: BaseURL,
    api_key: APIKey = None,
    model: ModelName = None,
    host_cache: Annotated[
        int,
        typer.Option(
            min=-1, metavar="MIB", help="llama.cpp's --cache-ram; 0 is off, -1 without limit."
        ),
    ] = 8192,
    unified: Annotated[
        bool, typer.Option("--unified", help="llama.cpp runs with --kv-unified.")
    ] = False,
    similarity: Annotated[
        float, typer.Option(min=0, max=1, help="llama.cpp's --slot-prompt-similarity.")
    ] = 0.1,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model as `kvagent size` takes it: a small host cache holds what it weighs.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Send recorded requests, and compare the cached tokens with what was predicted.

    Each request goes out with one token to generate, one after the other; nobody else should use the server meanwhile.
    The exit status is 0 when every request was predicted, 1 when one was not, 2 when nothing could be compared.
    """
    import orjson
    from rich.console import Console

    from kvagent.backends import condition, probe, remedy
    from kvagent.backends.simulation import Settings, simulation
    from kvagent.cli.connection import connect
    from kvagent.cli.failure import Failure
    from kvagent.cli.model_argument import read_model
    from kvagent.cli.progress import progress
    from kvagent.cli.verify.report import as_json, render
    from kvagent.cli.verify.run import play

    requests = list(_requests(file))
    geometry = read_model(layers).geometry if layers is not None else None
    connection = connect(base_url, api_key)
    server = connection.run(probe(model))
    now = connection.run(condition(server))
    cache = simulation(server, now, Settings(host_cache, unified, similarity, geometry))
    if cache is None:
        raise Failure(f"{connection.api} is neither vLLM nor llama.cpp, whose caches are known")
    notes = []
    if now.running:
        notes.append(f"Others' requests were running ({now.running}): they are not predicted.")
    rows = []
    with progress("verifying", sum(request.size for request in requests)) as screen:
        for flow in play(server, cache, requests):
            row = connection.run(flow)
            if row.silent:
                advice = remedy(server, "cached_not_reported") or "It cannot be verified."
                raise Failure(
                    f"{connection.api} does not say how many prompt tokens were cached. {advice}"
                )
            if row.line:
                rows.append(row)
                screen.advance(requests[len(rows) - 1].size)
    if all(row.prompt_tokens is None for row in rows):
        raise Failure(rows[0].fault)
    if cache.leftovers and any(row.off for row in rows):
        notes.append(cache.leftovers)
    if json:
        typer.echo(orjson.dumps(as_json(rows, notes), option=orjson.OPT_INDENT_2).decode())
    else:
        Console().print(render(rows, notes), highlight=False)
    if not all(row.right for row in rows):
        raise typer.Exit(1)


def _requests(file: str) -> Iterator[Request]:
    """The recorded requests; a line that is none is a failure."""
    import orjson

    from kvagent.cli.failure import Failure, because
    from kvagent.cli.packed import refuse_packed
    from kvagent.cli.recorded import Broken, Recorded
    from kvagent.cli.verify.run import Request
    from kvagent.cli.whole_file import STANDARD

    name = "standard input" if file == STANDARD else file
    try:
        content = sys.stdin.buffer.read() if file == STANDARD else Path(file).read_bytes()
        lines = content.splitlines(keepends=True)
    except OSError as error:
        raise Failure(f"cannot read {name}: {because(error)}") from error
    refuse_packed(content, file, "kvagent verify")
    empty = True
    for number, line in enumerate(lines, 1):
        try:
            recorded = Recorded.read(line)
            if recorded is not None:
                empty = False
                yield Request(number, orjson.loads(recorded.body), len(line))
        except Broken as broken:
            raise Failure(f"{name}, line {number} {broken}") from broken
        except orjson.JSONDecodeError as error:
            raise Failure(f"{name}, line {number} holds what no server reads: {error}") from error
    if empty:
        raise Failure(f"{name} holds no request")
