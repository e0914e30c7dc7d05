"""Which options does every command have that speaks with a server?"""

from __future__ import annotations

from typing import Annotated

import typer

BaseURL = Annotated[
    str, typer.Option(metavar="URL", help="As an OpenAI client takes it: http://HOST:PORT/v1")
]
APIKey = Annotated[
    str | None,
    typer.Option(metavar="KEY", envvar="OPENAI_API_KEY", help="The server's key, if any."),
]
ModelName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which model, where there are several.")
]
