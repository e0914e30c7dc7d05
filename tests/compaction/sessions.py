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


_READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
from to_requests import messages
json.dump(messages(sys.argv[2]), sys.stdout)
"""


def recorded(shared: Path, name: str) -> Message:
    """The last chat request of a recorded session, without its system message."""
    arguments = [str(shared / "measure"), str(shared / "data" / f"{name}.jsonl")]
    read = subprocess.run(
        [sys.executable, "-c", _READ, *arguments], check=True, capture_output=True
    )
    messages = [message for message in json.loads(read.stdout) if message["role"] != "system"]
    return {"model": "m", "messages": messages}


def words(text: str) -> int:
    """Tokens, as far as these tests care."""
    return len(text) // 4
