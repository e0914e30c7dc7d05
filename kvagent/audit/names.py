"""How are files and places in them named where people read of them?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kvagent.audit.transcript import Place

STANDARD = "-"


def called(file: str, folder: str = "") -> str:
    """A file's name, without the folder that was told before it."""
    return "standard input" if file == STANDARD else file.removeprefix(folder)


def placed(place: Place) -> str:
    """``log.jsonl:3 .messages``."""
    return str(Place(called(place.file), place.line, place.path))


def folder_of(files: Sequence[str]) -> str:
    """The folder that all of several files are in, with its separator; empty where there is none."""
    if len(files) < 2:
        return ""
    common = os.path.commonprefix(files)  # noqa: RUF071  (cut back to a folder below)
    folder = common[: max(map(common.rfind, {"/", os.sep})) + 1]
    return "" if folder in (os.sep, f"{os.curdir}{os.sep}") else folder
