"""What does a recorded session waste, why, and what would help?"""

from __future__ import annotations

from typing import Annotated

import typer

from kvagent.cli.any_terminal import any_terminal
from kvagent.cli.failure import Failure


def audit(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-",
            help="Transcripts or logs of requests, packed or not; - is standard input.",
        ),
    ],
) -> None:
    """Say what a session wastes, why, and what kvagent would make of it."""
    from kvagent.audit.analyse import audit as analysed
    from kvagent.audit.formats import recognise
    from kvagent.audit.formats.contents import Contents
    from kvagent.audit.report.terminal import summary
    from kvagent.audit.rules import checks
    from kvagent.audit.source import opened
    from kvagent.audit.transcript import NoTranscript
    from kvagent.audit.turns import Analysis

    console = any_terminal()
    for source in sources:
        try:
            with opened(source) as file:
                contents = Contents.of(file)
                known = recognise(contents)
                session = analysed(known.read(contents), source, known, Analysis(), checks())
        except NoTranscript as error:
            raise Failure(str(error)) from error
        for part in summary(session):
            console.print(part)
