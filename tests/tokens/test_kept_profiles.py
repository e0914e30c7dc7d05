from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kvagent.tokens.kept_profiles import kept_profile
from kvagent.tokens.profile import TemplateProfile, profile_of
from kvagent.tokens.template import ChatTemplate
from tests.tokens.toy_templates import Toy

TEMPLATE = ChatTemplate(Toy(reasoning="loop").source())


class Profiler:
    """Counts how often a profile is made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> TemplateProfile:
        self.made += 1
        return profile_of(TEMPLATE)


@pytest.fixture
def profiler() -> Profiler:
    return Profiler()


def test_made_once(tmp_path: Path, profiler: Profiler) -> None:
    folder = tmp_path / "not" / "there"
    made = kept_profile(folder, TEMPLATE.hash, profiler)
    assert kept_profile(folder, TEMPLATE.hash, profiler) == made
    assert profiler.made == 1
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"version": 0}'])
def test_a_damaged_file_is_made_anew(tmp_path: Path, profiler: Profiler, damage: bytes) -> None:
    (tmp_path / f"{TEMPLATE.hash}.json").write_bytes(damage)
    made = kept_profile(tmp_path, TEMPLATE.hash, profiler)
    assert kept_profile(tmp_path, TEMPLATE.hash, profiler) == made
    assert profiler.made == 1


def test_the_file_of_another_template_is_not_taken(tmp_path: Path, profiler: Profiler) -> None:
    other = profile_of(ChatTemplate(Toy().source()))
    (tmp_path / f"{TEMPLATE.hash}.json").write_bytes(other.json())
    assert kept_profile(tmp_path, TEMPLATE.hash, profiler).template == TEMPLATE.hash


def test_where_nothing_can_be_kept(tmp_path: Path, profiler: Profiler) -> None:
    (tmp_path / "file").write_text("a file, not a folder")
    for _ in range(2):
        assert kept_profile(tmp_path / "file", TEMPLATE.hash, profiler).hazards
    assert profiler.made == 2
