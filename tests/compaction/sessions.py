"""What does an agent's session look like, in as few words as a test needs?"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

Message = dict[str, Any]

_ids = count(1)


def user(text: str) -> Message:
    """What the user says."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """What the assistant says without calling a tool."""
    return {"role": "assistant", "content": text}


def used(name: str, result: str, *, says: str = "", **arguments: Any) -> list[Message]:
    """A tool call and its result."""
    call_id = f"call_{next(_ids)}"
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": says, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def recorded(shared: Path, name: str, folder: Path) -> Message:
    """The last chat request of a recorded session."""
    script, session = shared / "measure" / "to_requests.py", shared / "data" / f"{name}.jsonl"
    out = folder / "requests.jsonl"
    subprocess.run([sys.executable, script, session, out], check=True, capture_output=True)
    request: Message = json.loads(out.read_bytes().splitlines()[-1])
    return request


def words(text: str) -> int:
    """Tokens, as far as these tests care."""
    return len(text) // 4
