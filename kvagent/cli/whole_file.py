"""How is a file written whole or not at all?

What is written goes to a temporary file beside the target, which takes the target's place at the
end. Standard output and devices, which cannot be replaced, get everything at the end.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from kvagent.cli.failure import Failure, because

STANDARD = "-"


class WholeFile:
    """A file to be written, or standard output for ``-``. Raises ``Failure``.

    A context manager: what is not committed when it ends leaves nothing behind, and a target that
    was there before stays as it was.
    """

    def __init__(self, target: str) -> None:
        self.name = "standard output" if target == STANDARD else target
        self._path: Path | None = None
        """What will be replaced; None where the bytes are copied at the end."""
        self._device = None if target == STANDARD else Path(target)
        self._temporary: Path | None = None
        try:
            self._file = self._open(target)
        except OSError as error:
            raise Failure(f"cannot write {self.name}: {because(error)}") from error

    def _open(self, target: str) -> IO[bytes]:
        if target == STANDARD:
            return tempfile.TemporaryFile()
        # A link stays a link: it is the file behind it that is replaced.
        path = Path(os.path.realpath(target))
        try:
            # Of the target, not of the path: /dev/stdout leads to a pipe that has no path.
            mode = Path(target).stat().st_mode
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise Failure(f"cannot write {target}: there is no folder {path.parent}") from None
            mode = 0
        if stat.S_ISDIR(mode) or target.endswith(os.sep):
            raise Failure(f"cannot write {target}: it is a folder, name a file in it")
        if mode and not stat.S_ISREG(mode):
            return tempfile.TemporaryFile()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".kvagent-", suffix=".tmp")
        self._path, self._temporary = path, Path(name)
        with suppress(OSError):  # some file systems know no modes
            self._temporary.chmod(stat.S_IMODE(mode) if mode else _mode_of_new_files())
        return os.fdopen(handle, "wb")

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failure(error) from error

    def flush(self) -> None:
        """Find out whether there is room for all that was written."""
        try:
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def commit(self) -> None:
        """Put what was written in its place."""
        self.flush()
        try:
            if self._path is None:
                self._copy()
            elif self._temporary is not None:
                self._file.close()
                self._temporary.replace(self._path)
                self._temporary = None
        except BrokenPipeError:
            raise  # who reads a pipe may have read enough
        except OSError as error:
            raise Failure(f"cannot write {self.name}: {because(error)}") from error

    def _copy(self) -> None:
        self._file.seek(0)
        if self._device is None:
            shutil.copyfileobj(self._file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            with self._device.open("wb") as device:
                shutil.copyfileobj(self._file, device)

    def _failure(self, error: OSError) -> Failure:
        where = f"beside {self.name}" if self._path else f"in {tempfile.gettempdir()}"
        return Failure(f"cannot write a temporary file {where}: {because(error)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # what could not be written is thrown away, or was complained of
            self._file.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)


def _mode_of_new_files() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
