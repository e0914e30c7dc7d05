"""Is what was given as text a packed file?"""

from __future__ import annotations

import shlex

from kvagent.cli.failure import Failure
from kvagent.cli.whole_file import STANDARD

# How a packed file begins, with what it is packed, and what unpacks it to standard output.
_PACKED = ((b"\x1f\x8b", "gzip", "zcat"), (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"))


def refuse_packed(beginning: bytes, file: str, command: str) -> None:
    """Raise ``Failure`` for bytes that begin as packed ones do; it says how ``command`` gets the text."""
    for magic, packer, unpacker in _PACKED:
        if beginning.startswith(magic):
            if file == STANDARD:
                raise Failure(f"standard input is packed with {packer}: send it through {unpacker}")
            raise Failure(
                f"{file} is packed with {packer}: `{unpacker} {shlex.quote(file)} | {command} -`"
            )
