"""What do tests of all forms of a report share?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvagent.audit.analyse import audit
from kvagent.audit.formats import recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.rules import checks
from kvagent.audit.session import Session
from kvagent.audit.source import opened
from kvagent.audit.turns import Analysis


def audited(path: Path) -> Session:
    """The audit of a file as it is without any option."""
    with opened(path) as file:
        contents = Contents.of(file)
        known = recognise(contents)
        return audit(known.read(contents), path.name, known, Analysis(), checks())


@pytest.fixture(scope="session")
def recorded(shared: Path) -> list[Session]:
    """The audits of all recorded sessions."""
    suffixes = (".json", ".jsonl", ".yaml", ".traj", ".gz")
    folders = shared / "data", shared / "data" / "openhands_litellm_sonnet4", shared / "data/weka"
    paths = [path for folder in folders for path in sorted(folder.iterdir())]
    return [audited(path) for path in paths if path.suffix in suffixes]
