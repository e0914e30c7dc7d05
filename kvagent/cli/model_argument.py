"""Which model does the command's argument MODEL mean?"""

from __future__ import annotations

from kvagent.cli.failure import Failure
from kvagent.model_geometry import ModelError, Named
from kvagent.model_geometry import read_model as read

__all__ = ["Named", "read_model"]


def read_model(argument: str) -> Named:
    """The model of a name, a Hugging Face folder or a GGUF file; ``Failure`` if there is none."""
    try:
        return read(argument)
    except ModelError as error:
        raise Failure(str(error)) from error
