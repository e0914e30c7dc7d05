"""Which recorded sessions are there, and what did each of their messages hold?

The files lie beside the repository (``../shared``, or where KVAGENT_SHARED says) and have the form of the agent
that wrote them; here each becomes a list of roles and texts.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent

Kind = Literal["result", "reply", "other"]
_KINDS: dict[str, Kind] = {
    "tool": "result",
    "function": "result",
    "function_call_output": "result",
    "assistant": "reply",
    "function_call": "reply",
}

CODING_AGENTS = (
    "claudecode_196820da",
    "claudecode_3fe1b6bc",
    "claudecode_9eda1058",
    "codex_rollout_019e1625",
    "pi_before-compaction",
)


@dataclass(frozen=True, slots=True)
class Message:
    """What a message counts as, and its text."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Recording:
    """A session from its first message to its last reply."""

    name: str
    messages: list[Message]

    def turns(self) -> Iterator[list[Message]]:
        """What each request added to the one before: the reply that came, then what followed it."""
        added: list[Message] = []
        for message in self.messages:
            if message.kind == "reply" and any(earlier.kind != "reply" for earlier in added):
                yield added
                added = []
            added.append(message)


def shared() -> Path:
    """The folder of recordings and meters."""
    folder = Path(os.environ.get("KVAGENT_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        raise SystemExit(f"no recordings at {folder}: set KVAGENT_SHARED to the folder of them")
    return folder


def meter(name: str) -> ModuleType:
    """One of the neutral meters, which are files and no package."""
    path = shared() / "measure" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recordings() -> Iterator[Recording]:
    """Every session that has a tool result."""
    for name, messages in _all(shared() / "data"):
        found = [_message(message) for message in messages]
        if any(message.kind == "result" for message in found):
            yield Recording(name, found)


def _all(data: Path) -> Iterator[tuple[str, list[Any]]]:
    messages = meter("to_requests").messages
    for name in CODING_AGENTS:
        yield name, messages(data / f"{name}.jsonl")
    log = _read(data / "claudeweb_sample_session.json")["loglines"]
    yield "claudeweb", [part for line in log for part in _blocks(line["message"])]
    for number, record in enumerate(_read(data / "tau_airline_12.json")):
        yield f"tau_{number}", record["traj"]
    for path in sorted(data.glob("sweagent_*.traj")):
        yield path.stem, _observed(_read(path)["history"])
    yield "miniswe", _observed(_read(data / "miniswe_github_issue.traj.json"))
    for path in sorted(data.glob("toolbench_*.json")):
        # each of the prompts is the one before and more
        yield path.stem, _answered(_read(path)["answer_generation"]["train_messages"][-1])
    yield "inspect_browser", _read(data / "inspect_browser.json")["samples"][0]["messages"]
    yield "inspect_metr", _read(data / "inspect_metr_small_epoch5.json")["messages"]
    last = max((data / "openhands_litellm_sonnet4").iterdir())
    yield "openhands_litellm", _answered(_read(last)["messages"])
    for number, line in enumerate(_lines(data / "openhands_events_multiswe.jsonl")):
        yield f"openhands_events_{number}", [_event(event) for event in line["history"]]
    for path in sorted(data.glob("langfuse_*.json")):
        yield path.name.split(".")[0], _longest_prompt(_read(path)["observations"])


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _lines(path: Path) -> Iterator[Any]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _message(message: dict[str, Any]) -> Message:
    kind = _KINDS.get(message.get("role") or message.get("type") or "", "other")
    parts = [_text(message.get("content")), _text(message.get("output"))]
    alone = message if kind == "reply" else {}  # a call that is no part of a message
    for call in message.get("tool_calls") or [message.get("function_call") or alone]:
        function = call.get("function") or call
        if isinstance(function, str):
            function = {"name": function, "arguments": call.get("arguments")}
        parts += [_text(function.get("name")), _text(function.get("arguments"))]
    return Message(kind, "".join(parts))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_text, content))
    if isinstance(content, dict):
        for key in ("text", "content", "output"):
            if key in content:
                return _text(content[key])
        return json.dumps(content, ensure_ascii=False)
    return "" if content is None else str(content)


def _blocks(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Results of tools stand in user messages there."""
    content = message["content"]
    if isinstance(content, str):
        yield message
        return
    for block in content:
        if block["type"] == "tool_use":
            called = {"function": block["name"], "arguments": json.dumps(block["input"])}
            yield {"role": "assistant", "tool_calls": [called]}
        else:
            role = "tool" if block["type"] == "tool_result" else message["role"]
            yield {"role": role, "content": block}


def _observed(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the environment said stands in user messages, behind the task."""
    begun, found = False, []
    for message in messages:
        begun = begun or message["role"] == "assistant"
        found.append(
            {**message, "role": "tool"} if begun and message["role"] == "user" else message
        )
    return found


def _answered(prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A prompt that was sent, with an answer whose text does not matter any more."""
    return prompt if prompt[-1]["role"] == "assistant" else [*prompt, {"role": "assistant"}]


def _event(event: dict[str, Any]) -> dict[str, Any]:
    called = event.get("tool_call_metadata") is not None
    if called and "observation" in event:
        return {"role": "tool", "content": event.get("content")}
    arguments = event.get("args") or {}
    if called:
        return {"role": "assistant", "content": json.dumps(arguments)}
    return {"role": "user", "content": arguments.get("content") or event.get("message")}


def _longest_prompt(observations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    prompts: list[list[dict[str, Any]]] = [[]]
    for observation in observations:
        prompt = observation.get("input")
        if isinstance(prompt, str):
            try:
                prompt = json.loads(prompt)
            except ValueError:
                continue
        if observation["type"] == "GENERATION" and isinstance(prompt, list):
            prompts.append(prompt)
    longest = max(prompts, key=len)
    return [*longest, {"role": "assistant"}]
