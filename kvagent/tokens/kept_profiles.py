"""Has this template been profiled before?

One file a template, named by the template's hash, so that it is rendered once and not once a run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from kvagent.tokens.profile import TemplateProfile


def kept_profile(
    folder: Path, template: str, profile: Callable[[], TemplateProfile]
) -> TemplateProfile:
    """The profile kept in ``folder`` under the name ``template``; made and kept where there is none.

    A file that is damaged or of another version is made anew. A folder that cannot be written to
    keeps nothing, and that is no error.
    """
    file = folder / f"{template}.json"
    try:
        kept = TemplateProfile.parse(file.read_bytes())
        if kept.template == template:
            return kept
    except (OSError, ValueError):
        pass
    made = profile()
    with suppress(OSError):
        _write(file, made.json())
    return made


def _write(file: Path, data: bytes) -> None:
    """Whole or not at all: another process may read it now."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, delete=False) as whole:  # made with mode 0600
        try:
            whole.write(data)
            whole.close()
            Path(whole.name).replace(file)
        except BaseException:
            Path(whole.name).unlink()
            raise
