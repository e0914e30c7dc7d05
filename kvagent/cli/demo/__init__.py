"""What does kvagent save on a real server, with a real agent, here and now?"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from openai import OpenAI

    from kvagent.cli.demo.agent import Turn


class Run(StrEnum):
    """One pass of the script: who is asked to play it, and through which client."""

    RAW = "raw"
    KVAGENT = "kvagent"
    CLEAN = "clean"
    """An agent without bad habits and without kvagent: what the server and the template allow."""


def wrap(client: OpenAI) -> OpenAI:
    """The client of the second run."""
    import kvagent

    wrapped: OpenAI = kvagent.wrap(client)
    return wrapped


def demo(
    report: Annotated[Path, typer.Option(help="Where the sums go, as JSON.")] = Path(
        "demo-report.json"
    ),
    record: Annotated[
        Path | None,
        typer.Option(
            help="Write the first run's request bodies and replies here, as JSON lines.",
            metavar="FILE.jsonl",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of the server.")] = 2,
    only: Annotated[Run | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run an agent on a real llama.cpp, raw and wrapped, and show what the server computed.

    The agent reads the repository that kvagent lives in, has the bad habits of real agents, and plays the same twelve
    turns twice. It takes one to three minutes on two CPU cores.
    """
    from kvagent.cli.demo.server import ServerError

    errors = Console(stderr=True)
    runs = [only] if only else [Run.RAW, Run.KVAGENT]
    turns: dict[str, list[Turn]] = {}
    lines: list[dict[str, Any]] = []
    try:
        _check(runs, report, record)
        with _without_proxies():
            for run in runs:
                # A server of its own for each run: the second must not find what the first one left in the cache.
                kept = lines if record and run is runs[0] else None
                turns[run] = _play(run, threads, kept, errors)
    except KeyboardInterrupt:
        errors.print("Interrupted: the server has been stopped, no report was written.")
        raise typer.Exit(130) from None
    except (_DemoError, ServerError) as error:
        errors.print(
            f"kvagent demo: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        raise typer.Exit(2) from None
    _show_and_write(turns, report, record, lines)


class _DemoError(Exception):
    """The demo cannot go on. The message is one plain sentence."""


def _check(runs: Sequence[Run], report: Path, record: Path | None) -> None:
    """Find out before two minutes of work, not after them, that something is missing."""
    needed = {"openai"} | ({"kvagent_openai"} if Run.KVAGENT in runs else set())
    if not all(importlib.util.find_spec(module) for module in needed):
        raise _DemoError("The demo needs the OpenAI adapter: `pip install 'kvagent[demo]'`.")
    for file in (report, record):
        if file is not None and (file.is_dir() or not os.access(file.absolute().parent, os.W_OK)):
            raise _DemoError(f"{file} cannot be written: name a file in a folder that can be.")


@contextlib.contextmanager
def _without_proxies() -> Iterator[None]:
    """A proxy for the outside world must not be asked for 127.0.0.1."""
    before = {name: os.environ.get(name) for name in ("NO_PROXY", "no_proxy")}
    os.environ.update(dict.fromkeys(before, "127.0.0.1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _play(
    run: Run, threads: int, lines: list[dict[str, Any]] | None, errors: Console
) -> list[Turn]:
    from openai import OpenAI, OpenAIError
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from kvagent.cli.demo.agent import Agent, ReplyError
    from kvagent.cli.demo.habits import Clock
    from kvagent.cli.demo.script import steps
    from kvagent.cli.demo.server import LlamaCpp
    from kvagent.cli.demo.tools import Toolbox, find_root

    toolbox = Toolbox(find_root())
    script = steps(toolbox.root)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("turn {task.completed} of {task.total}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )

    def keep(body: dict[str, Any], reply: dict[str, Any]) -> None:
        if lines is not None:
            lines.append({"body": body, "reply": reply})

    with progress:
        task = progress.add_task(f"{run}: loading SmolLM2", total=len(script))

        # Replies as plain text: a call that the model begins by itself stays in the text as it was generated.
        with LlamaCpp(threads=threads, parse_tool_calls=False) as server:
            progress.update(task, description=f"{run}: the agent works")
            client = OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=300)
            used = wrap(client) if run is Run.KVAGENT else client
            clock = None if run is Run.CLEAN else Clock()
            try:
                with client, used:
                    agent = Agent(
                        used, toolbox, clock, record=keep, on_turn=lambda _: progress.advance(task)
                    )
                    return agent.run(script)
            except (OpenAIError, ReplyError) as error:
                raise _DemoError(f"The {run} run failed: {error}") from error


def _show_and_write(
    turns: dict[str, list[Turn]], report: Path, record: Path | None, lines: list[dict[str, Any]]
) -> None:
    from kvagent.cli.demo.report import as_json, render

    console = Console()
    console.print(render(turns, console))
    _write(report, json.dumps(as_json(turns), indent=2) + "\n")
    console.print(f"report  {report}", markup=False, highlight=False, soft_wrap=True)
    if record is not None:
        _write(record, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        said = f"record  {record}: {len(lines)} requests"
        console.print(said, markup=False, highlight=False, soft_wrap=True)


def _write(file: Path, text: str) -> None:
    """All of it or nothing: whoever reads the file never finds half of it."""
    half = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(file)
    finally:
        half.unlink(missing_ok=True)
