"""Does a model fit on a GPU, how fast can it be, and what would help?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvagent.cli.any_terminal import any_terminal, times
from kvagent.cli.byte_counts import said
from kvagent.cli.failure import Failure
from kvagent.cli.model_argument import Named, read_model
from kvagent.kvmemory.command_lines import llamacpp_command, vllm_command
from kvagent.kvmemory.dtypes import KVTypes, UnknownType, kv_types
from kvagent.kvmemory.geometry import Geometry
from kvagent.kvmemory.gpus import UnknownGPU, gpu
from kvagent.kvmemory.memory import Storage, check
from kvagent.kvmemory.plan import (
    HOST_BANDWIDTH,
    NO_END,
    UTILISATION,
    WORKSPACE,
    Means,
    Scenario,
    Server,
    means,
)
from kvagent.kvmemory.speed import EFFICIENCY
from kvagent.kvmemory.vllm import takes_ranks
from kvagent.kvmemory.weights import UnknownWeights, weights_type

_EDGE_CONTEXT = 8192
_TABLE = 80  # cells; on a narrower terminal a table breaks flags and cuts figures
_FILE, _FOLDER = "MODEL.gguf", "MODEL"


def plan(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A well-known name, a Hugging Face folder or its config.json, or a GGUF file.",
        ),
    ],
    gpu_text: Annotated[
        str,
        typer.Option(
            "--gpu",
            metavar="NAME|GIB[,GB/S[,TFLOPS]]",
            help="A GPU by name, or its memory, and for speeds its bandwidth and dense bf16 compute.",
        ),
    ],
    context: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="TOKENS", help="Of each request; needed unless --profile says it."
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="Requests at once.")] = 1,
    weights_dtype: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="bf16, fp8, int4, q4_k_m, ...; else as published or in the file."
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="As vLLM or llama.cpp call it: auto, fp8, q8_0, ..."),
    ] = None,
    tp: Annotated[int, typer.Option(min=1, metavar="N", help="GPUs together.")] = 1,
    shared_head: Annotated[
        int,
        typer.Option(
            min=0, metavar="TOKENS", help="With which all requests begin: system prompt and tools."
        ),
    ] = 0,
    server: Annotated[
        str | None,
        typer.Option(metavar="vllm|llama.cpp", help="Whose memory is planned; else vLLM's."),
    ] = None,
    parameters: Annotated[
        float | None,
        typer.Option(metavar="BILLIONS", help="For a model that does not say how many it has."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="edge",
            help="llama.cpp, 4-bit weights, 8-bit KV, 8,192 tokens, unless another option says "
            "otherwise.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say whether a model fits on a GPU, what would help, and how fast it can be at best."""
    if profile not in {None, "edge"}:
        raise Failure(f"there is no profile {profile!r}, only edge")
    edge = profile == "edge"
    if context is None:
        if not edge:
            raise Failure("--context is missing: how many tokens has each request?")
        context = _EDGE_CONTEXT
    named = read_model(model)
    try:
        types = kv_types(kv_dtype or ("q8_0" if edge else "auto"))
        check(named.geometry, types)
        scenario = Scenario(
            geometry=_with_parameters(named, parameters),
            gpu=gpu(gpu_text),
            context=context,
            requests=concurrency,
            storage=Storage(types, tp),
            server=_server(server, named, types, edge=edge),
            weights=weights_type(weights_dtype or "q4_k_m") if weights_dtype or edge else None,
        )
        if scenario.server == "vLLM" and not takes_ranks(named.geometry, tp):
            raise Failure(f"--tp {tp}: vLLM cannot divide the heads of {named.geometry.name} so")
        report = planned(named, scenario, shared_head)
    except (UnknownGPU, UnknownType) as error:
        raise Failure(str(error)) from error
    except UnknownWeights as error:
        hint = "; give --parameters" if "how many" in str(error) else ""
        raise Failure(f"{error}{hint}") from error
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report, any_terminal())


def _with_parameters(named: Named, billions: float | None) -> Geometry:
    geometry = named.geometry
    if billions is None:
        return geometry
    if not 0 < billions < 1e6:
        raise Failure(f"--parameters is {billions:g}, not a number of billions above 0")
    weights = replace(
        geometry.weights,
        parameters=round(billions * 1e9),
        active_parameters=None,
        expert_parameters=0,
    )
    return replace(geometry, weights=weights)


def _server(asked: str | None, named: Named, types: KVTypes, *, edge: bool) -> Server:
    names: dict[str, Server] = {"vllm": "vLLM", "llama.cpp": "llama.cpp", "llamacpp": "llama.cpp"}
    if asked is not None:
        if asked.lower() not in names:
            raise Failure(f"there is no server {asked!r}, only vllm and llama.cpp")
        server = names[asked.lower()]
        if server not in types.servers:
            raise Failure(f"{server} keeps no KV in {types.name}")
        return server
    wanted: Server = "llama.cpp" if edge or named.source.lower().endswith(".gguf") else "vLLM"
    return wanted if wanted in types.servers else names[types.servers[0].lower()]


def planned(named: Named, now: Scenario, shared: int = 0) -> dict[str, Any]:
    """What the command prints, as the object of ``--json``; bytes and seconds.

    ``model``, ``source``, ``server``, ``context``, ``concurrency``, ``kv_dtype``, ``weights_dtype``
    (null: as published or in the file), ``tp``, ``shared_head``: what was asked; ``model_context``: the
    most the model was made for, or null.
    ``gpu``: ``name``, ``bytes``, ``gb_per_s``, ``tflops``, ``source``; null what is not known.
    ``memory``, of each GPU: ``usable_bytes``, ``weight_bytes``, ``workspace_bytes`` (assumed),
    ``space_bytes`` left for KV, ``kv_bytes`` needed.
    ``fits``; ``most_requests`` of this length; ``longest_context`` at this concurrency.
    ``means``: for each of the usual means ``name``, ``what``, ``kv_bytes``, ``space_bytes``, ``fits``,
    ``most_requests``, ``longest_context`` with it (null where it does nothing to them here), and the
    flags of ``vllm`` and ``llamacpp`` that switch it on.
    ``prefill``: ``seconds`` of one cold prompt, ``warm_seconds`` and ``cached_tokens`` of one whose
    shared head is in the cache. ``decode``: ``bytes`` read for a step, ``seconds`` of it at least,
    ``tokens_per_second`` of one request and ``of_all`` at most. Null where a figure of the GPU is
    missing.
    ``commands``: the two servers' command lines as lists, with the means ``commands_with`` where it
    would not fit otherwise (null: as asked). ``assumptions``: sentences.
    """
    warm = replace(now, shared=shared)
    usual = list(means(now, shared))
    # What does not fit is not worth starting: then with the first of the means that makes it fit.
    helping = next((one for one in usual if one.scenario and one.scenario.fits), None)
    start = helping.scenario if helping and helping.scenario and not now.fits else now
    return {
        "model": now.geometry.name,
        "source": named.source,
        "server": now.server,
        "context": now.context,
        "model_context": now.geometry.context,
        "concurrency": now.requests,
        "kv_dtype": now.storage.types.name,
        "weights_dtype": now.weights,
        "tp": now.storage.tp,
        "shared_head": shared,
        "gpu": {
            "name": now.gpu.name,
            "bytes": now.gpu.bytes,
            "gb_per_s": now.gpu.gb_per_s,
            "tflops": now.gpu.tflops,
            "source": now.gpu.source,
        },
        "memory": {
            "usable_bytes": int(now.gpu.bytes * UTILISATION[now.server]),
            "weight_bytes": now.weight_bytes,
            "workspace_bytes": WORKSPACE[now.server],
            "space_bytes": now.space_bytes,
            "kv_bytes": now.kv_bytes,
        },
        "fits": now.fits,
        "most_requests": now.most_requests,
        "longest_context": now.longest_context,
        "means": [_brought(one) for one in usual],
        "prefill": {
            "seconds": now.prefill_seconds,
            "warm_seconds": warm.warm_prefill_seconds,
            "cached_tokens": warm.shared_tokens,
        },
        "decode": _decode(now),
        "commands": {
            "vllm": vllm_command(start, _repository(named)),
            "llamacpp": llamacpp_command(start, _gguf(named)),
        },
        "commands_with": helping.name if helping and start is not now else None,
        "assumptions": list(_assumptions(now)),
    }


def _brought(one: Means) -> dict[str, Any]:
    with_it = one.scenario
    return {
        "name": one.name,
        "what": one.what,
        "kv_bytes": with_it and with_it.kv_bytes,
        "space_bytes": with_it and with_it.space_bytes,
        "fits": with_it and with_it.fits,
        "most_requests": with_it and with_it.most_requests,
        "longest_context": with_it and with_it.longest_context,
        "vllm": one.vllm,
        "llamacpp": one.llamacpp,
    }


def _decode(now: Scenario) -> dict[str, Any]:
    seconds = now.step_seconds
    return {
        "bytes": now.step_bytes,
        "seconds": seconds,
        "tokens_per_second": seconds and 1 / seconds,
        "of_all": seconds and now.requests / seconds,
    }


def _repository(named: Named) -> str:
    """What vLLM is given: the folder or repository that the configuration is in."""
    folder, _, file = named.source.rpartition("/")
    return folder if file == "config.json" and folder else _FOLDER


def _gguf(named: Named) -> str:
    return named.source if named.source.lower().endswith(".gguf") else _FILE


def _assumptions(now: Scenario) -> Iterator[str]:
    limit = now.geometry.context
    if limit is not None and now.context > limit:
        yield f"The model was made for no more than {limit:,} tokens."
    weights = now.weights or now.geometry.weights.dtype or "16 bits"
    if now.weights is None and now.geometry.weights.bytes is not None:
        weights = "the file's own types"
    yield (
        f"{now.server} uses {UTILISATION[now.server]:.0%} of the memory; weights in {weights}; "
        f"{said(WORKSPACE[now.server])} for activations and buffers."
    )
    if now.server == "vLLM" and now.geometry.windows:
        yield f"vLLM has {now.tokens_in_flight:,} tokens in flight, which windows hold besides."
    if now.weights is not None:
        yield (
            f"The commands are given the model with weights in {now.weights}; "
            "vLLM with a checkpoint of as many bits."
        )
    yield f"All requests are at their full length. Prefill at {EFFICIENCY:.0%} of the peak compute."
    yield "Decode at the full bandwidth: a bound that no server goes beyond."
    if now.storage.tp > 1 and now.server == "vLLM":
        yield "Several GPUs are taken to be as many times as fast."
    yield f"The host's memory is reached with {HOST_BANDWIDTH:g} GB/s."
    if now.gpu.source != "as given":
        yield f"The GPU's figures are from {now.gpu.source}."


def show(report: dict[str, Any], console: Console) -> None:
    """Print the report for people."""
    console.print(_headline(report, console))
    console.print()
    console.print(_memory(report))
    console.print(_verdict(report))
    console.print()
    console.print(_means(report) if console.width >= _TABLE else _means_as_lines(report))
    console.print(_speed(report))
    console.print()
    console.print(Text(_start(report), "bold"))
    for command in report["commands"].values():
        # Not wrapped by us: who copies it wants one line.
        console.print(Text(shlex.join(command)), soft_wrap=True)
    console.print()
    console.print(Text("Assumed", "bold"))
    for sentence in report["assumptions"]:
        console.print(Text(sentence, "dim"))


def _start(report: dict[str, Any]) -> str:
    if report["commands_with"]:
        return f"Start it so, with {report['commands_with']}"
    return "Start it so" if report["fits"] else "It would be started so, if it fitted"


def _headline(report: dict[str, Any], console: Console) -> Text:
    gpu, count = report["gpu"], report["tp"]
    known = [said(gpu["bytes"])]
    if gpu["gb_per_s"]:
        known.append(f"{gpu['gb_per_s']:,g} GB/s")
    if gpu["tflops"]:
        known.append(f"{gpu['tflops']:,g} TFLOPS")
    gpus = times(f"{count} × {gpu['name']}", console) if count > 1 else gpu["name"]
    return Text.assemble(
        (report["model"], "bold"),
        f" on {gpus} ({', '.join(known)}), {report['server']}\n",
        f"{_many(report['concurrency'], 'request')} of {_many(report['context'], 'token')}, "
        f"KV in {report['kv_dtype']}",
    )


def _memory(report: dict[str, Any]) -> Table:
    memory = report["memory"]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    each = " of each GPU" if report["tp"] > 1 else ""
    table.add_row(f"usable memory{each}", said(memory["usable_bytes"]))
    table.add_row("weights", said(memory["weight_bytes"]))
    table.add_row("activations and buffers", said(memory["workspace_bytes"]))
    table.add_row("left for KV", said(memory["space_bytes"]))
    table.add_row("KV of all requests", said(memory["kv_bytes"]))
    return table


def _verdict(report: dict[str, Any]) -> Text:
    memory = report["memory"]
    if report["fits"]:
        more = f"room for {_many(report['most_requests'], 'such request')}"
        if report["most_requests"] >= NO_END - 1:
            more = "room for any number of such requests"
        return Text.assemble(("It fits: ", "bold green"), f"{more}.")
    if memory["space_bytes"] == 0:
        return Text.assemble(
            ("It does not fit: ", "bold red"),
            f"the weights and buffers alone are more than {said(memory['usable_bytes'])}.",
        )
    count = report["most_requests"]
    room = _many(count, "such request") if count else "none of them"
    longest = f"{report['longest_context']:,} tokens each for {report['concurrency']:,}"
    return Text.assemble(
        ("It does not fit: ", "bold red"), f"there is room for {room}, or for {longest}."
    )


def _means(report: dict[str, Any]) -> Table:
    table = Table(
        title="What the usual means would bring",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    table.add_column("means", no_wrap=True)
    table.add_column("", overflow="fold", ratio=1)
    table.add_column("KV", justify="right", no_wrap=True)
    table.add_column("requests\nthat fit", justify="right", no_wrap=True)
    table.add_column("tokens\neach", justify="right", no_wrap=True)
    own = _own(report)
    limit = report["model_context"]
    table.add_row(
        "as asked",
        "",
        said(report["memory"]["kv_bytes"]),
        _count(report["most_requests"]),
        _tokens(report["longest_context"], limit),
    )
    for one in report["means"]:
        what = Text(one["what"])
        if one[own]:
            what.append(f"\n{one[own]}", "dim")
        counted = one["kv_bytes"] is not None
        table.add_row(
            one["name"],
            what,
            said(one["kv_bytes"]) if counted else "",
            _count(one["most_requests"]) if counted else "",
            _tokens(one["longest_context"], limit) if counted else "",
            style=None,
        )
    return table


def _means_as_lines(report: dict[str, Any]) -> Text:
    """What the table says, for a terminal that is too narrow for one."""
    own, limit = _own(report), report["model_context"]
    asked = {**report, "name": "as asked", "what": "", own: "", **report["memory"]}
    text = Text("What the usual means would bring\n", "bold")
    for one in (asked, *report["means"]):
        text.append(f"\n{one['name']}\n", "bold")
        for line, style in ((one["what"], "none"), (one[own], "dim")):
            if line:
                text.append(f"{line}\n", style)
        if one["kv_bytes"] is not None:
            each = _tokens(one["longest_context"], limit)
            count = _count(one["most_requests"])
            text.append(f"KV {said(one['kv_bytes'])}\n", "none")
            text.append(f"requests that fit: {count}\ntokens each: {each}\n", "none")
    return text


def _own(report: dict[str, Any]) -> str:
    """Under which key a means has the flags of the server that is planned."""
    return "vllm" if report["server"] == "vLLM" else "llamacpp"


def _count(number: int) -> str:
    return "any" if number >= NO_END - 1 else f"{number:,}"


def _tokens(number: int, limit: int | None) -> str:
    """How long each may be, or that it may be as long as the model can."""
    return "all" if limit is not None and number >= limit else _count(number)


def _speed(report: dict[str, Any]) -> Text:
    prefill, decode = report["prefill"], report["decode"]
    text = Text("" if report["fits"] else "As if it fitted:\n")
    text.append("Prefill ", "bold")
    if prefill["seconds"] is None:
        text.append("not known without the GPU's compute", "none")
    else:
        text.append(
            f"of one prompt: about {_seconds(prefill['seconds'])} with nothing cached", "none"
        )
        if prefill["cached_tokens"]:
            text.append(
                f", {_seconds(prefill['warm_seconds'])} with {prefill['cached_tokens']:,} tokens cached",
                "none",
            )
    text.append("\nDecode ", "bold")
    if decode["seconds"] is None:
        text.append("not known without the GPU's bandwidth", "none")
    else:
        text.append(
            f"at best {_seconds(decode['seconds'])} a token ({said(decode['bytes'])} read): "
            f"{_rate(decode['tokens_per_second'])} tokens/s a request, {_rate(decode['of_all'])} in all",
            "none",
        )
    return text


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value >= 1 else f"{value * 1000:,.3g} ms"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"
