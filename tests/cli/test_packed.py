"""Is a packed file called one, by every command that reads text?"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvagent.cli import main

PACKED = [
    (gzip.compress(b"{}\n" * 99), "gzip", "zcat"),
    (b"\x28\xb5\x2f\xfd\x04\x58\x19\n\xff\n", "zstd", "zstdcat"),
]
COMMANDS = [["rewrite"], ["shorten"], ["verify", "--base-url", "http://127.0.0.1:9/v1"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("content", "packer", "unpacker"), PACKED)
def test_a_packed_file_is_one_sentence_with_what_unpacks_it(
    command: list[str], content: bytes, packer: str, unpacker: str, tmp_path: Path
) -> None:
    name = command[0]
    file = tmp_path / "a log"
    file.write_bytes(content)
    result = CliRunner().invoke(main, [*command, str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"kvagent {name}: {file} is packed with {packer}: "
        f"`{unpacker} '{file}' | kvagent {name} -`\n"
    )
    result = CliRunner().invoke(main, [*command, "-"], input=content)
    assert (result.exit_code, result.stdout) == (2, "")
    said = f"standard input is packed with {packer}: send it through {unpacker}"
    assert result.stderr == f"kvagent {name}: {said}\n"
