"""What does a finding of the audit mean, and what is to be done?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kvagent.cli.failure import Failure

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from kvagent.audit.rule import Rule

_COSTS = {
    "prefill": "tokens that are prefilled again",
    "context": "tokens in the prompt that need not be there",
    "": "nothing that could be counted",
}


def explain(
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RULE",
            help="Codes (KVA101), beginnings of codes (KVA1) or names (clock-in-head); none: a "
            "table of all.",
        ),
    ] = None,
    output_format: Annotated[
        Literal["terminal", "json"], typer.Option(help="How it is written.")
    ] = "terminal",
) -> None:
    """Explain what audit finds: what it costs, how it comes about, and what to do."""
    from kvagent.audit.rules import RULES
    from kvagent.audit.selection import meant
    from kvagent.audit.settings import SettingsError
    from kvagent.cli.any_terminal import any_terminal

    try:
        # Each once, in the order in which they were asked for.
        wanted = list(dict.fromkeys(rule for word in rules or () for rule in meant(word, RULES)))
    except SettingsError as error:
        raise Failure(str(error)) from error
    if output_format == "json":
        import orjson

        values = [_json(rule) for rule in wanted or RULES]
        typer.echo(orjson.dumps(values, option=orjson.OPT_INDENT_2).decode())
        return
    console = any_terminal()
    if not wanted:
        console.print(_table(RULES))
        console.print("\nkvagent explain CODE tells more of one.", highlight=False)
        return
    for number, rule in enumerate(wanted):
        if number:
            console.print()
        _tell(rule, console)


def _json(rule: Rule) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(rule)


def _table(rules: Sequence[Rule]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rule in rules:
        said = Text.assemble((f"{rule.name}: ", "bold"), rule.summary)
        table.add_row(rule.code, rule.severity, said)
    return table


def _tell(rule: Rule, console: Console) -> None:
    from rich.text import Text

    from kvagent.audit.report.screen.layout import Layout

    console.print(Text(f"{rule.code} {rule.name} ({rule.severity})", style="bold"))
    console.print(Text(f"{rule.summary}\n\n{rule.why}\n"))
    console.print(Text(f"Costs: {_COSTS[rule.cost]}.\nFix: {rule.fix}"))
    if rule.example:
        layout = Layout(console)
        console.print()
        for line in rule.example.splitlines():
            depth = 4 + len(line) - len(line.lstrip())
            for part in layout.paragraph(line.lstrip(), indent=depth, hanging=depth + 2):
                console.print(part, soft_wrap=True, highlight=False)
