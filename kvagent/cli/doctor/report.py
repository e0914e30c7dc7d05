"""How are a server's facts and faults told, to a person and to a program?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvagent.cli.doctor.examination import Facts
from kvagent.cli.doctor.findings import Finding


def as_json(facts: Facts, found: Sequence[Finding], notes: Sequence[str]) -> dict[str, Any]:
    """``{"server": {…}, "condition": {…}, "trial": {…}, "findings": […], "notes": […]}``."""
    trial = facts.trial
    return {
        "server": {k: v for k, v in asdict(facts.server).items() if k != "template"},
        "condition": asdict(facts.condition),
        "trial": None
        if trial is None
        else {
            "prompt_tokens": trial.second.prompt_tokens,
            "cached_tokens_first": trial.first.cached_tokens,
            "cached_tokens_second": trial.second.cached_tokens,
        },
        "findings": [asdict(finding) for finding in found],
        "notes": list(notes),
    }


def render(
    url: str, facts: Facts, found: Sequence[Finding], notes: Sequence[str]
) -> RenderableType:
    """What the server is, what was found, and what is worth knowing."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (("server", _name(url, facts)), *_rows(facts)):
        table.add_row(name, Text(value))  # brackets in a name are no markup
    parts: list[RenderableType] = [table, ""]
    for finding in found:
        head = Text.assemble(("✗ ", "bold red"), (finding.code, "bold red"))
        body = Text.assemble(f"{finding.seen}\n", ("→ ", "green"), finding.remedy)
        parts += [head, Padding(body, (0, 0, 1, 2))]
    parts += [Padding(Text(f"· {note}", style="dim"), (0, 0, 0, 0)) for note in notes]
    if notes:
        parts.append("")
    count = len(found)
    parts.append(
        Text(f"{count} finding{'s' if count != 1 else ''}", style="bold red")
        if found
        else Text(f"✓ Nothing to mend{_as_far_as(facts)}.", style="bold green")
    )
    return Group(*parts)


def _as_far_as(facts: Facts) -> str:
    return "" if facts.trial else ", as far as can be seen without a request"


def _name(url: str, facts: Facts) -> str:
    server = facts.server
    kind = "unknown, speaks the OpenAI API" if server.kind == "openai" else server.kind
    return f"{kind} {server.version or ''}".strip() + f", at {url}"


def _rows(facts: Facts) -> Iterator[tuple[str, str]]:
    server, now, trial = facts.server, facts.condition, facts.trial
    if server.model:
        yield "model", server.model
    if server.window:
        yield "window", f"{server.window:,} tokens" + (" a slot" if server.slots else "")
    if server.slots:
        yield "slots", f"{server.slots:,}"
    if server.block_size:
        yield "block", f"{server.block_size:,} tokens"
    if now.kv_tokens:
        holds = f", {now.kv_tokens / server.window:.1f} full windows" if server.window else ""
        yield "KV cache", f"{now.kv_tokens:,} tokens{holds}"
    if now.asked_tokens and now.hit_tokens is not None:
        rate = now.hit_tokens / now.asked_tokens
        yield "hit rate", f"{rate:.1%} of {now.asked_tokens:,} prompt tokens so far"
    if trial is not None:
        yield "sent twice", _trial(facts)


def _trial(facts: Facts) -> str:
    assert facts.trial is not None
    prompt, cached = facts.trial.second.prompt_tokens, facts.trial.second.cached_tokens
    whole = "the prompt" if prompt is None else f"{prompt:,} prompt tokens"
    said = "the reply does not say" if cached is None else f"{cached:,} from the cache"
    return f"{whole}: {said}"
