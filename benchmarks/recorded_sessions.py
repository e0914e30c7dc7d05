"""Which messages did the agents of the recorded sessions exchange with their models?

A reader for each format of the files that lie beside the checkout (``shared/data``). All give the
same: OpenAI chat messages in order, tool results as role ``tool`` under the id of their call.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

Message = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("KVAGENT_SHARED") or ROOT.parent / "shared")


def meter(name: str, shared: Path = SHARED) -> ModuleType:
    """One of the neutral meters, by the name of its module."""
    folder = str(shared / "measure")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def sessions(shared: Path = SHARED) -> Iterator[tuple[str, list[Message]]]:
    """The name and the messages of every session that has tool results, in the order of names."""
    for path in sorted((shared / "data").iterdir()):
        for beginning, reader in READERS.items():
            if path.name.startswith(beginning):
                for name, messages in reader(path):
                    if any(message["role"] == "tool" for message in messages):
                        yield name, messages


def _rollout(path: Path) -> Iterator[tuple[str, list[Message]]]:
    """Claude Code, pi and Codex."""
    with warnings.catch_warnings():  # the meter leaves closing the file to Python
        warnings.simplefilter("ignore", ResourceWarning)
        messages = meter("to_requests", path.parent.parent).messages(path)
    yield path.stem, messages


def _inspect(path: Path) -> Iterator[tuple[str, list[Message]]]:
    data = json.loads(path.read_text("utf-8"))
    for sample in data.get("samples", [data]):
        messages = []
        for message in sample["messages"]:
            calls = [
                (call["id"], call["function"], call["arguments"])
                for call in message.get("tool_calls") or ()
            ]
            messages.append(_message(message, calls))
        yield path.stem, messages


def _sweagent(path: Path) -> Iterator[tuple[str, list[Message]]]:
    """Where the model has no tools, what it reads after each of its own turns is the result."""
    messages: list[Message] = []
    for message in json.loads(path.read_text("utf-8"))["history"]:
        if message.get("is_demo"):
            continue
        if ids := message.get("tool_call_ids"):
            messages.append({**_message(message), "tool_call_id": ids[0]})
        else:
            messages.append(_message(message) | _calls(message))
    yield path.stem, _with_results(messages)


def _miniswe(path: Path) -> Iterator[tuple[str, list[Message]]]:
    yield path.stem, _with_results(list(map(_message, json.loads(path.read_text("utf-8")))))


def _openhands(path: Path) -> Iterator[tuple[str, list[Message]]]:
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        messages: list[Message] = []
        for event in json.loads(line)["history"]:
            if "observation" in event:
                answered = f"call_{event.get('cause')}"
                if messages and answered == messages[-1].get("tool_calls", [{}])[0].get("id"):
                    content = str(event.get("content", ""))
                    messages.append({"role": "tool", "tool_call_id": answered, "content": content})
            elif event.get("action") in ("system", "message"):
                role = {"system": "system"}.get(event["action"], event["source"])
                role = "assistant" if role == "agent" else role
                messages.append({"role": role, "content": event["args"]["content"]})
            elif event.get("source") == "agent":
                arguments = dict(event.get("args") or {})
                spoken = {"role": "assistant", "content": arguments.pop("thought", "") or ""}
                calls = [(f"call_{event['id']}", event["action"], arguments)]
                messages.append(_message(spoken, calls))
        yield f"{path.stem}_{number}", _pairs(messages)


def _tau(path: Path) -> Iterator[tuple[str, list[Message]]]:
    for record in json.loads(path.read_text("utf-8")):
        yield f"{path.stem}_{record['task_id']}", record["traj"]


def _toolbench(path: Path) -> Iterator[tuple[str, list[Message]]]:
    data = json.loads(path.read_text("utf-8"))
    messages: list[Message] = []
    for message in data["answer_generation"]["train_messages"][-1]:
        number = len(messages)
        if message["role"] == "function":
            messages.append({**_message(message), "role": "tool", "tool_call_id": f"call_{number}"})
        elif call := message.get("function_call"):
            calls = [(f"call_{number + 1}", call["name"], call["arguments"])]
            messages.append(_message(message, calls))
        else:
            messages.append(_message(message))
    yield path.stem, _pairs(messages)


def _langfuse(path: Path) -> Iterator[tuple[str, list[Message]]]:
    """The longest prompt of a trace; only where it is chat messages."""
    longest: list[Message] = []
    for observation in json.loads(path.read_text("utf-8"))["observations"]:
        prompt = observation.get("input")
        try:
            prompt = json.loads(prompt) if isinstance(prompt, str) else prompt
        except ValueError:
            continue
        prompt = prompt.get("messages") if isinstance(prompt, dict) else prompt
        if not isinstance(prompt, list) or len(prompt) <= len(longest):
            continue
        if all(isinstance(message, dict) and "role" in message for message in prompt):
            longest = [_message(message) | _calls(message) for message in prompt]
    yield path.stem, longest


READERS: dict[str, Callable[[Path], Iterator[tuple[str, list[Message]]]]] = {
    "claudecode_": _rollout,
    "codex_": _rollout,
    "inspect_": _inspect,
    "langfuse_": _langfuse,
    "miniswe_": _miniswe,
    "openhands_events": _openhands,
    "pi_": _rollout,
    "sweagent_": _sweagent,
    "tau_": _tau,
    "toolbench_": _toolbench,
}


def _message(message: Message, calls: list[tuple[str, str, Any]] | None = None) -> Message:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if part.get("text"))
    result = {"role": message["role"], "content": str(content)}
    if "tool_call_id" in message:
        result["tool_call_id"] = message["tool_call_id"]
    if calls:
        result["tool_calls"] = [
            {
                "id": name_of_call,
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for name_of_call, name, given in calls
        ]
    return result


def _calls(message: Message) -> Message:
    """The calls of a message that has them as OpenAI has them."""
    calls = message.get("tool_calls")
    chat = isinstance(calls, list) and all("function" in call for call in calls)
    return {"tool_calls": calls} if chat and calls else {}


def _with_results(messages: list[Message]) -> list[Message]:
    """What a user says after a turn of the model, as the result of a call."""
    if any(message["role"] == "tool" for message in messages):
        return messages
    result: list[Message] = []
    for number, message in enumerate(messages):
        if message["role"] == "user" and number and messages[number - 1]["role"] == "assistant":
            call = {"id": f"call_{number}", "type": "function"}
            call["function"] = {"name": "bash", "arguments": "{}"}  # type: ignore[assignment]
            result[-1] = {**result[-1], "tool_calls": [call]}
            result.append({**message, "role": "tool", "tool_call_id": f"call_{number}"})
        else:
            result.append(message)
    return result


def _pairs(messages: list[Message]) -> list[Message]:
    """Without calls that have no result, and results that have no call."""
    answered = {message.get("tool_call_id") for message in messages}
    result: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            calls = [call["id"] for call in result[-1].get("tool_calls", [])] if result else []
            if message["tool_call_id"] not in calls:
                continue
        calls = [call for call in message.get("tool_calls", []) if call["id"] in answered]
        kept = {key: value for key, value in message.items() if key != "tool_calls"}
        result.append({**kept, "tool_calls": calls} if calls else kept)
    return result
