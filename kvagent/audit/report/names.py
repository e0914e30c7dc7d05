"""How are the files of a report named?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kvagent.audit.difference import alike


def folder_of(files: Sequence[str]) -> str:
    """The folder that all of several files are in, with its separator; empty where there is none."""
    if len(files) < 2:
        return ""
    first, last = min(files), max(files)
    common = first[: alike(first, last)]
    folder = common[: max(map(common.rfind, {"/", os.sep})) + 1]
    return "" if folder in (os.sep, f"{os.curdir}{os.sep}") else folder
