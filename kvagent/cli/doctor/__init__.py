"""Does this server serve agents well, and if not, what mends it?"""

from __future__ import annotations

from typing import Annotated

import typer

from kvagent.cli.server_options import APIKey, BaseURL, ModelName


def doctor(
    base_url: BaseURL,
    api_key: APIKey = None,
    model: ModelName = None,
    context: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="The window that your agent needs.")
    ] = 8192,
    agents: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many conversations go on at once.")
    ] = 1,
    passive: Annotated[
        bool, typer.Option("--passive", help="Send no request, only look (GET).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Examine a server: what it is, whether it keeps prefixes, and what costs agents their cache.

    Sends two chat requests of one token, none to a server that is busy, and has it render tiny conversations. A
    llama.cpp without a host cache forgets the conversation that was longest unused for them: there, --passive. The exit
    status is 0 when there is nothing to mend, 1 when something was found, 2 when no server of models answers.
    """
    import orjson
    from rich.console import Console

    from kvagent.backends import PromptError
    from kvagent.cli.connection import connect
    from kvagent.cli.doctor.examination import examine
    from kvagent.cli.doctor.findings import Needs, findings, notes
    from kvagent.cli.doctor.rendering import profile_server
    from kvagent.cli.doctor.report import as_json, render
    from kvagent.cli.doctor.template import template_findings, template_notes

    with Console(stderr=True).status("examining the server"):
        connection = connect(base_url, api_key)
        facts = connection.run(examine(model, passive=passive))
        found = list(findings(facts, Needs(context, agents)))
        known = list(notes(facts))
        if not passive:
            try:
                profile = connection.run(profile_server(facts.server))
            except PromptError as error:
                known.append(f"The chat template was not examined: {error.fault}.")
            else:
                found += template_findings(profile)
                known += template_notes(profile)
    if json:
        typer.echo(orjson.dumps(as_json(facts, found, known), option=orjson.OPT_INDENT_2).decode())
    else:
        Console().print(render(connection.api, facts, found, known), highlight=False)
    if found:
        raise typer.Exit(1)
