"""What can be done from the command line?

One command a file. A command's module is imported when the command runs, so that help comes
quickly and one command's needs do not slow another.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from kvagent.cli.failure import Failure


class Command(NamedTuple):
    """Where a command's function is, which bears its name, and what the overview says of it."""

    module: str
    summary: str


COMMANDS = {
    "audit": Command(
        "kvagent.cli.audit", "Say what a recorded session wastes, why, and what would help."
    ),
    "demo": Command(
        "kvagent.cli.demo", "Run an agent on a real llama.cpp, raw and wrapped, side by side."
    ),
    "doctor": Command(
        "kvagent.cli.doctor", "Examine a server: does it serve agents well, and what mends it?"
    ),
    "explain": Command(
        "kvagent.cli.explain", "Explain what audit finds: what it costs, how it comes, what to do."
    ),
    "plan": Command(
        "kvagent.cli.plan", "Say whether a model and its KV cache fit a GPU, and what would help."
    ),
    "rewrite": Command(
        "kvagent.cli.rewrite", "Write what kvagent would have sent for recorded chat requests."
    ),
    "shorten": Command(
        "kvagent.cli.shorten", "Show what a long text becomes, and what is left of it."
    ),
    "size": Command("kvagent.cli.size", "Say how much memory a model's KV cache takes."),
    "verify": Command(
        "kvagent.cli.verify", "Send recorded requests: are the cached tokens as predicted?"
    ),
}


# The disk behind standard output is full, or the user's share of it.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# Both for all commands: each takes these from the group it is in.
_SETTINGS = {"help_option_names": ["--help", "-h"]}


# The types of typer's own base class differ between its versions, hence Any.
class LazyGroup(TyperGroup):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        function = getattr(importlib.import_module(COMMANDS[cmd_name].module), cmd_name)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(cmd_name)(function)
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where it can still be said that there is no room
            return result
        except Failure as failure:
            typer.echo(f"kvagent {ctx.invoked_subcommand}: {failure}", err=True)
            raise typer.Exit(2) from failure
        except OSError as error:
            raise _no_room(f"kvagent {ctx.invoked_subcommand}", error) from error

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # in the group's own help
            sys.exit(_no_room("kvagent", error).exit_code)


def _no_room(name: str, error: OSError) -> typer.Exit:
    """Say that there is no room for the output; any other error is raised again."""
    if error.errno not in _NO_ROOM:
        raise error
    typer.echo(f"{name}: {error.strerror}", err=True)
    _forget_what_is_unwritten()
    return typer.Exit(2)


def _forget_what_is_unwritten() -> None:
    """Lest Python tries once more at its end, and complains once more."""
    with suppress(OSError, ValueError):  # standard output may be no file at all
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


main = typer.Typer(
    cls=LazyGroup,
    context_settings=_SETTINGS,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from kvagent import __version__

        typer.echo(f"kvagent {__version__}")
        raise typer.Exit


@main.callback()
def _kvagent(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Keep an agent's prompts, and the server's KV cache of them, clean."""
