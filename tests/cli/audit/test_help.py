"""Does the help tell every setting, without a wait?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kvagent.audit.formats import BY_NAME
from kvagent.audit.settings import Settings
from kvagent.cli.audit import FORMATS
from tests.cli.audit.auditing import run


def test_help_lists_the_formats(folder: Path) -> None:
    assert sorted(BY_NAME) == FORMATS.split(", ")
    told = " ".join(run("--help").stdout.split()).replace("- ", "-")
    for name, field in Settings.model_fields.items():
        assert f"--{field.alias} " in told, name


def test_help_imports_nothing_of_the_audit() -> None:
    code = """
import json, sys
from kvagent.cli import main
try:
    main(["audit", "--help"])
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "kvagent.cli.audit" in modules
    assert not [name for name in modules if name.startswith("kvagent.audit")]
