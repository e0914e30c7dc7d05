"""How does a report become one page that works offline, on paper, on a phone and in the dark?

The page needs nothing but itself: style and script are within it, and its policy allows only these
two, by their hashes. Everything that is not the page's own text is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from kvagent.audit import figures, names
from kvagent.audit.report.page import shown, words
from kvagent.audit.report.page.contrast import side_by_side
from kvagent.audit.report.page.timeline import broken
from kvagent.audit.report.page.visible import visible
from kvagent.audit.session import Report

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = "kvagent.audit.report.page"


class NoTemplates(Exception):
    """What makes the page is not installed; the text says what to do."""


def write(report: Report) -> str:
    """The page.

    Raises:
        NoTemplates: jinja2 is missing.
    """
    style, script = _part("style.css"), _part("page.js")
    page = _environment().get_template("page.html")
    return page.render(
        report=report,
        shown=shown.all_shown(report),
        together=shown.together(report),
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
    )


def check() -> None:
    """See that a page can be made, before there is work done for it.

    Raises:
        NoTemplates: it cannot.
    """
    _environment()


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise NoTemplates(
            'The report as a page needs jinja2: pip install "kvagent[audit]".'
        ) from None

    def seen(value: Any) -> Any:
        """What stands on the page of a value: no character of a text is hidden."""
        return value if isinstance(value, Markup) else visible(str(value))

    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        axis=figures.axis,
        bytes=figures.size,
        called=names.called,
        change=figures.change,
        count=figures.count,
        css=Markup,
        happened=words.happened,
        placed=names.placed,
        percent=lambda part: f"{100 * part:.3f}".rstrip("0").rstrip(".") + "%",
        share=figures.share,
        short=figures.short,
    )
    environment.globals.update(
        beside=words.beside,
        broken=broken,
        happened=words.happened,
        is_exact=shown.is_exact,
        line=words.line,
        severities=shown.severities,
        several=figures.several,
        side_by_side=side_by_side,
        where=words.where,
    )
    return environment


def _part(name: str) -> str:
    """A file of the page."""
    return files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content security policy names an inline style or script."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
