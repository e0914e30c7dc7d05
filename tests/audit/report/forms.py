"""Which forms has a report, and what is it in each?"""

from __future__ import annotations

import importlib
import io

from rich.console import Console

from kvagent.audit.report.terminal import show
from kvagent.audit.session import Report

FORMS = ("as_json", "github", "html", "markdown", "sarif", "terminal")


def written(report: Report, form: str) -> str:
    """The text of a report in one of its forms; on a terminal with all details."""
    if form == "terminal":
        text = io.StringIO()
        show(report, Console(file=text, width=200), details=True)
        return text.getvalue()
    made: str = importlib.import_module(f"kvagent.audit.report.{form}").write(report)
    return made
