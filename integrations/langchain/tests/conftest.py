"""What do the tests of the adapter share? A real server, and a scripted one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integrations.openai.tests.null_server import NullServer

SETTINGS = (
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANGSMITH_GATEWAY",
    "OPENAI_API_BASE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_PROXY",
)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[NullServer]:
    """A server that answers what a test says, and keeps every request as it came."""
    server = NullServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def llamacpp() -> Iterator[str]:
    """The base URL of a real llama.cpp server, one for the whole run."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import LlamaCpp, ServerError, default_model

    try:
        default_model()
    except ServerError as error:
        pytest.skip(str(error))
    with LlamaCpp() as server:
        yield server.base_url
