"""Does the agent that a test runs keep its prefix? A fixture for pytest.

def test_my_agent(kvagent_audit):
    recorder = kvagent.testing.Recorder()
    run_my_agent(httpx.Client(event_hooks={"request": [lambda r: recorder.record(r.read())]}))
    kvagent_audit(recorder, min_hit_rate="80%")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kvagent.audit.hygiene import Recorded
    from kvagent.audit.session import Report


class Audit(Protocol):
    """What the fixture ``kvagent_audit`` gives."""

    def __call__(
        self,
        recorded: Recorded,
        *,
        select: Sequence[str] | str | None = None,
        ignore: Sequence[str] | str | None = None,
        fail_on: Sequence[str] | str | None = None,
        min_hit_rate: float | str | None = None,
        max_prompt_tokens: int | None = None,
    ) -> Report:
        """As ``kvagent.audit.hygiene.audited`` says it."""


def pytest_configure(config: pytest.Config) -> None:
    """Offer the fixture. What it needs is imported when a test calls it: most runs never do."""
    import pytest

    class Fixtures:
        """What tests may ask for."""

        @pytest.fixture
        def kvagent_audit(self, pytestconfig: pytest.Config, tmp_path: Path) -> Audit:
            """Audit what an agent sent: fails the test unless it keeps its prefix.

            Takes requests, a kvagent.testing.Recorder, or the path of a transcript; which rules,
            which hit rate and the rest are as in [tool.kvagent.audit] of pyproject.toml, or given.
            """

            def audit(recorded: Recorded, **asked: object) -> Report:
                __tracebackhide__ = True
                from kvagent.audit.hygiene import audited
                from kvagent.audit.settings import settings_of

                settings = settings_of(start=pytestconfig.rootpath)
                return audited(recorded, tmp_path, settings, **asked)  # type: ignore[arg-type]

            return audit

    config.pluginmanager.register(Fixtures(), "kvagent-fixtures")
