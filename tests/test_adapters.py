"""Does ``wrap`` say what was wrong with a client that no adapter knows?"""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

import kvagent


class Elsewhere:
    """A client of nobody's."""


def test_a_class_is_no_client() -> None:
    with pytest.raises(TypeError, match=r"a client, not its class: wrap\(Elsewhere\(\.\.\.\)\)$"):
        kvagent.wrap(Elsewhere)


class Picky:
    """An adapter that knows no client."""

    def accepts(self, client: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ([], "(none is installed; for OpenAI clients: pip install 'kvagent[openai]')"),
        (["openai", "else"], "(installed: else, openai)"),
    ],
)
def test_installing_is_advised_where_nothing_is_installed(
    names: list[str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "kvagent.adapters"
    points = EntryPoints(EntryPoint(name, f"{__name__}:PICKY", group) for name in names)

    def installed(**_: Any) -> EntryPoints:
        return points

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    with pytest.raises(TypeError) as raised:
        kvagent.wrap(Elsewhere())
    assert str(raised.value) == f"kvagent.wrap: no adapter for a {__name__}.Elsewhere {hint}"


PICKY = Picky()
