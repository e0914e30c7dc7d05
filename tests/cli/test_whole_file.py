"""Is a file there whole, or as it was before?"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from kvagent.cli.failure import Failure
from kvagent.cli.whole_file import WholeFile

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def written(target: Path) -> bytes:
    with WholeFile(str(target)) as file:
        file.write(b"new ")
        file.write(b"text")
        file.commit()
    return target.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file(tmp_path: Path) -> None:
    assert written(tmp_path / "out") == b"new text"
    assert names(tmp_path) == ["out"]


def test_the_target_is_as_it_was_until_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with WholeFile(str(target)) as file:
        file.write(b"new text")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    def interrupted() -> None:
        with WholeFile(str(tmp_path / "out")) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []


@POSIX
def test_the_mode_stays_and_a_new_file_gets_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "out").touch(mode=0o640)
    (tmp_path / "usual").touch()
    for name, like in [("out", 0o640), ("new", (tmp_path / "usual").stat().st_mode & 0o777)]:
        written(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == like


@POSIX
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "behind").write_bytes(b"old")
    (tmp_path / "out").symlink_to("behind")
    assert written(tmp_path / "out") == b"new text"
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "behind").read_bytes() == b"new text"


@POSIX
def test_a_device_is_written_and_not_replaced() -> None:
    with WholeFile(os.devnull) as file:
        file.write(b"gone")
        file.commit()
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_standard_output_gets_all_at_the_end(capfdbinary: Any) -> None:
    with WholeFile("-") as file:
        file.write(b"new text")
        file.flush()
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == b""
        file.commit()
    assert capfdbinary.readouterr().out == b"new text"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    for target in (str(tmp_path), str(tmp_path / "new") + os.sep):
        with pytest.raises(Failure, match="it is a folder"):
            WholeFile(target)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"cannot write .*out: there is no folder .*none"):
        WholeFile(str(tmp_path / "none" / "out"))


@POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_device_without_room() -> None:
    with WholeFile("/dev/full") as file:
        file.write(b"too much")
        with pytest.raises(Failure, match="cannot write /dev/full: No space left"):
            file.commit()


@pytest.mark.parametrize("target", ["out", "-"])
def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    class Full:
        """A file on a disk that is full."""

        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            raise OSError(28, "No space left on device")

        close = flush

    monkeypatch.chdir(tmp_path)
    file = WholeFile(target)
    file._file.close()
    monkeypatch.setattr(file, "_file", Full())
    with file:
        with pytest.raises(Failure, match=r"temporary file .*: No space left on device"):
            file.write(b"x")
        with pytest.raises(Failure, match=r"temporary file .*: No space left on device"):
            file.commit()
    assert names(tmp_path) == []
