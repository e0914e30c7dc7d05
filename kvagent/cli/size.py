"""How much KV memory does a model take?

For one token, for one request, for all requests at once; and what each server reserves for them.
"""

from __future__ import annotations

import json
from math import ceil
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvagent.cli.any_terminal import any_terminal, times
from kvagent.cli.byte_counts import GIB, said
from kvagent.cli.failure import Failure
from kvagent.cli.model_argument import Named, read_model
from kvagent.kvmemory.dtypes import LLAMACPP, VLLM, UnknownType, kv_types
from kvagent.kvmemory.formula import formula
from kvagent.kvmemory.geometry import Attention, Indexer, Latent, Layer, Layers, State
from kvagent.kvmemory.llamacpp import reserve
from kvagent.kvmemory.memory import (
    Storage,
    check,
    expanded_bytes,
    fixed_bytes,
    growth_bytes,
    request_bytes,
    sequence_bytes,
    token_bytes,
    unwindowed_bytes,
)
from kvagent.kvmemory.vllm import BLOCK, CPU_IN_FLIGHT, blocks_of, cpu_block, takes_ranks

_DEFAULT_CONTEXT = 8192
_GPU_IN_FLIGHT = 2 * 8192


def size(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A well-known name, a Hugging Face folder or its config.json, or a GGUF file.",
        ),
    ],
    context: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Of each request; else all the model can."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests at once, or slots.")
    ] = 1,
    kv_dtype: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            help="As vLLM or llama.cpp call it: auto, fp8, q8_0, ...; K/V where the two differ.",
        ),
    ] = "auto",
    tp: Annotated[int, typer.Option(min=1, metavar="N", help="Ranks of tensor parallelism.")] = 1,
    space: Annotated[
        float | None,
        typer.Option(
            metavar="GIB", help="The KV space of one rank: how many tokens vLLM says it holds."
        ),
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, metavar="TOKENS", help="vLLM's --block-size.")
    ] = None,
    in_flight: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="TOKENS",
            help="What vLLM computes at once, which a sliding window has to hold besides: "
            "--max-num-batched-tokens, twice that on a GPU.",
        ),
    ] = None,
    cpu: Annotated[
        bool,
        typer.Option(
            "--cpu", help="vLLM on a CPU: blocks of 128 tokens, 2,048 in flight, unless said."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how much KV memory a model takes: for a token, for a request, for all.

    Every figure is that of one rank, in bytes, with the formula to check it by.
    """
    if space is not None and not 0 < space < 1e9:
        raise Failure(f"--space is {space:g}, not a number of GiB above 0")
    named = read_model(model)
    try:
        types = kv_types(kv_dtype)
        check(named.geometry, types)
    except UnknownType as error:
        raise Failure(str(error)) from error
    if not takes_ranks(named.geometry, tp):
        raise Failure(f"--tp {tp}: vLLM cannot divide the heads of {named.geometry.name} so")
    report = sizes(
        named,
        context or named.geometry.context or _DEFAULT_CONTEXT,
        concurrency,
        Storage(types, tp),
        space_bytes=None if space is None else int(space * GIB),
        block_size=block_size or (cpu_block(named.geometry) if cpu else BLOCK),
        in_flight=in_flight or (CPU_IN_FLIGHT if cpu else _GPU_IN_FLIGHT),
    )
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report, any_terminal())


def sizes(
    named: Named,
    context: int,
    concurrency: int,
    storage: Storage,
    *,
    space_bytes: int | None = None,
    block_size: int = BLOCK,
    in_flight: int = _GPU_IN_FLIGHT,
) -> dict[str, Any]:
    """What the command prints, as the object of ``--json``.

    ``model``, ``source``, ``kv_dtype``, ``tp``, ``context``, ``concurrency``: what was asked;
    ``model_context``: the most the model was made for, or null.
    ``layers``: for each kind of layer ``count``, ``kind`` (full, sliding, chunked, latent, indexer,
    state), ``window`` in tokens or null, ``formula``, and ``bytes_per_token`` (of a state 0) and
    ``bytes_per_request`` of all its layers.
    ``bytes_per_token``: by how much a request grows once its windows are full;
    ``bytes_per_token_in_window``: until then, and what it would be if all layers saw everything;
    ``bytes_per_token_expanded``: if latent attention were kept as full keys and values, else null.
    ``fixed_bytes``: full windows and states, which no request exceeds.
    ``bytes_per_request``, ``bytes_total``: of one request and of all.
    ``vllm``: ``block_size``, ``in_flight_tokens``, ``block_bytes``, ``blocks_per_request``,
    ``bytes_per_request``, ``bytes_total``, and for a KV space ``space_bytes``, ``blocks``, ``tokens``
    (its "KV cache size"), ``concurrency``, else null; null where vLLM has no such data type.
    ``llamacpp``: ``slots``, ``cells`` and ``window_cells`` of each, ``bytes_total``; null where it has
    no such data type, or with tensor parallelism.
    """
    geometry = named.geometry
    servers = storage.types.servers
    request = request_bytes(geometry, context, storage)
    return {
        "model": geometry.name,
        "source": named.source,
        "kv_dtype": storage.types.name,
        "tp": storage.tp,
        "context": context,
        "model_context": geometry.context,
        "concurrency": concurrency,
        "layers": [_layers(layers, context, storage) for layers in geometry.layers],
        "bytes_per_token": growth_bytes(geometry, storage),
        "bytes_per_token_in_window": unwindowed_bytes(geometry, storage),
        "bytes_per_token_expanded": expanded_bytes(geometry, storage),
        "fixed_bytes": fixed_bytes(geometry, storage),
        "bytes_per_request": request,
        "bytes_total": request * concurrency,
        "vllm": _vllm(named, context, concurrency, storage, space_bytes, block_size, in_flight)
        if VLLM in servers
        else None,
        "llamacpp": _llamacpp(named, context, concurrency, storage)
        if LLAMACPP in servers and storage.tp == 1
        else None,
    }


def _layers(layers: Layers, context: int, storage: Storage) -> dict[str, Any]:
    layer = layers.layer
    return {
        "count": layers.count,
        "kind": _kind(layer),
        "window": getattr(layer, "window", None),
        "formula": formula(layers, storage),
        "bytes_per_token": ceil(layers.count * token_bytes(layer, storage)),
        "bytes_per_request": ceil(layers.count * sequence_bytes(layer, context, storage)),
    }


def _kind(layer: Layer) -> str:
    match layer:
        case Attention(window=None):
            return "full"
        case Attention(chunked=True):
            return "chunked"
        case Attention():
            return "sliding"
        case Latent():
            return "latent"
        case Indexer():
            return "indexer"
        case State():
            return "state"


def _vllm(
    named: Named,
    context: int,
    concurrency: int,
    storage: Storage,
    space_bytes: int | None,
    block_size: int,
    in_flight: int,
) -> dict[str, Any]:
    blocks = blocks_of(named.geometry, context, storage, block_size=block_size, in_flight=in_flight)
    pool = None if space_bytes is None else blocks.pool(space_bytes)
    return {
        "block_size": blocks.block_size,
        "in_flight_tokens": in_flight,
        "block_bytes": blocks.block_bytes,
        "blocks_per_request": blocks.request_blocks,
        "bytes_per_request": blocks.request_bytes,
        "bytes_total": blocks.request_bytes * concurrency,
        "space_bytes": space_bytes,
        "blocks": pool and pool.blocks,
        "tokens": pool and pool.tokens,
        "concurrency": pool and pool.concurrency,
    }


def _llamacpp(named: Named, context: int, slots: int, storage: Storage) -> dict[str, Any]:
    reserved = reserve(named.geometry, context, slots, storage)
    return {
        "slots": slots,
        "cells": reserved.cells,
        "window_cells": reserved.window_cells,
        "bytes_total": reserved.bytes,
    }


def show(report: dict[str, Any], console: Console) -> None:
    """Print the report for people."""
    console.print(Text.assemble((report["model"], "bold"), "  ", report["source"]))
    rank = f", on one rank of {report['tp']}" if report["tp"] > 1 else ""
    console.print(f"KV in {report['kv_dtype']}{rank}\n", highlight=False)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for title, lines in (
        ("per token", _token_lines(report)),
        ("per request", _request_lines(report)),
        ("at once", _all_lines(report)),
    ):
        for index, (what, result) in enumerate(lines):
            table.add_row("" if index else title, times(what, console), result)
        table.add_row()
    console.print(table)
    limit = report["model_context"]
    if limit is not None and report["context"] > limit:
        console.print(f"The model was made for no more than {limit:,} tokens.", highlight=False)


def _token_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    lines = []
    for layers in report["layers"]:
        if layers["kind"] == "state":
            what, result = f"{layers['formula']}, whatever the length", layers["bytes_per_request"]
        else:
            what, result = layers["formula"], layers["bytes_per_token"]
            if layers["window"] is not None:
                what += f", of the last {layers['window']:,} tokens"
        lines.append((what, f"{result:,} B"))
    each, without = report["bytes_per_token"], report["bytes_per_token_in_window"]
    if len(lines) > 1 or without != each:
        lines.append(
            (
                "each token once the windows are full" if without != each else "each token",
                f"{each:,} B",
            )
        )
    if without != each:
        lines.append(("each token until then, or if all layers kept all", f"{without:,} B"))
    if report["fixed_bytes"]:
        lines.append(("full windows and states of a request", said(report["fixed_bytes"])))
    if report["bytes_per_token_expanded"] is not None:
        lines.append(
            ("if it kept full keys and values", f"{report['bytes_per_token_expanded']:,} B")
        )
    return lines


def _request_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    context = report["context"]
    parts = []
    for layers in report["layers"]:
        if layers["kind"] == "state":
            parts.append(f"{layers['bytes_per_request']:,}")
        else:
            tokens = min(context, layers["window"] or context)
            parts.append(f"{tokens:,} × {layers['bytes_per_token']:,}")
    total = report["bytes_per_request"]
    return [(f"{' + '.join(parts)} = {total:,} B", said(total))]


def _all_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    count = report["concurrency"]
    lines = [
        (
            f"{_many(count, 'request')} of {_many(report['context'], 'token')}",
            said(report["bytes_total"]),
        )
    ]
    if vllm := report["vllm"]:
        blocks = (
            f"vLLM: {count:,} × {vllm['blocks_per_request']:,} blocks of "
            f"{vllm['block_size']:,} tokens, {vllm['block_bytes']:,} B each"
        )
        lines.append((blocks, said(vllm["bytes_total"])))
        if vllm["tokens"] is not None:
            pool = (
                f"vLLM in {said(vllm['space_bytes'])}: {vllm['blocks']:,} blocks, "
                f"{vllm['concurrency']:.2f} requests; its KV cache size"
            )
            lines.append((pool, f"{vllm['tokens']:,} tokens"))
        if any(layers["kind"] == "sliding" for layers in report["layers"]):
            held = f"vLLM's windows hold {vllm['in_flight_tokens']:,} tokens in flight besides"
            lines.append((f"({held}: --in-flight)", ""))
        if any(layers["kind"] == "state" for layers in report["layers"]):
            lines.append(("(vLLM keeps states in the model's own type unless told otherwise)", ""))
    if llamacpp := report["llamacpp"]:
        windows = llamacpp["window_cells"]
        cells = f"{llamacpp['cells']:,} cells" + (f" and {windows:,} in windows" if windows else "")
        lines.append(
            (f"llama.cpp: {_many(count, 'slot')} of {cells}", said(llamacpp["bytes_total"]))
        )
    return lines


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"
