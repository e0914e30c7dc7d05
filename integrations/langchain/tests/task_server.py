"""What does a model say that only ever does the task it was given, step by step?

A small chat completions server on a real socket. What it answers follows from the newest messages of
the request alone, so that a run which is broken off and resumed is answered as one which is not. It
keeps every request as it came, and counts as cached what a request has in common with an earlier one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

TASK = re.compile(r"task (\d+): (\d+) steps")

Reply = Callable[[Mapping[str, Any]], dict[str, Any]]


def reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """The assistant's message: the next call of the newest task, or that it is done."""
    messages = request["messages"]
    at = max(i for i, m in enumerate(messages) if m["role"] == "user" and _task(m))
    task = _task(messages[at])
    assert task is not None
    number, steps = map(int, task.groups())
    done = sum(m["role"] == "tool" for m in messages[at:])
    if done >= steps or not request.get("tools"):
        return {"role": "assistant", "content": f"Task {number} is done: é, 日本, 🎉."}
    # Every third step is two calls at once.
    at_once = range(done, min(steps, done + (2 if done % 3 == 2 else 1)))
    return {
        "role": "assistant",
        "content": None if done % 2 else f"Step {done} of task {number}.",
        "tool_calls": [
            {
                "id": f"call_{number}_{step}",
                "type": "function",
                # As models write it, not as `json.dumps` does.
                "function": {"name": "read", "arguments": f'{{"task":{number},"step":{step}}}'},
            }
            for step in at_once
        ],
    }


def _task(message: Mapping[str, Any]) -> re.Match[str] | None:
    return TASK.search(json.dumps(message["content"], ensure_ascii=False))


def _common(left: bytes, right: bytes) -> int:
    """How many bytes two prompts begin with alike."""
    least, most = 0, min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


class TaskServer:
    """The server, and what it was sent."""

    def __init__(self, window: int | None = None, reply: Reply = reply) -> None:
        self.window = window
        """Requests of more tokens (four bytes each) are refused, in llama.cpp's words."""
        self.reply = reply
        """What the model says to a request."""
        self.bodies: list[bytes] = []
        self.prefilled: list[int] = []
        """Tokens by request that no earlier one had."""
        self.refused = 0
        self._prompts: list[bytes] = []
        self._lock = Lock()
        self._httpd: ThreadingHTTPServer | None = None

    @property
    def base_url(self) -> str:
        assert self._httpd is not None
        return f"http://127.0.0.1:{self._httpd.server_port}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    def answer(self, body: bytes) -> tuple[int, dict[str, Any]]:
        request = json.loads(body)
        prompt = json.dumps(
            [request.get("tools"), request["messages"]], ensure_ascii=False
        ).encode()
        tokens = len(prompt) // 4
        with self._lock:
            if self.window is not None and tokens > self.window:
                self.refused += 1
                told = (
                    f"the request exceeds the available context size. n_prompt_tokens={tokens}"
                    f", n_ctx={self.window}"
                )
                return 400, {
                    "error": {
                        "code": 400,
                        "message": told,
                        "type": "exceed_context_size_error",
                        "n_prompt_tokens": tokens,
                        "n_ctx": self.window,
                    }
                }
            cached = max((_common(prompt, earlier) // 4 for earlier in self._prompts), default=0)
            self._prompts.append(prompt)
            self.bodies.append(body)
            self.prefilled.append(tokens - cached)
        message = self.reply(request)
        return 200, {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "task",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": tokens,
                "completion_tokens": 20,
                "total_tokens": tokens + 20,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }


def _streamed(answer: Mapping[str, Any]) -> Iterator[bytes]:
    message = answer["choices"][0]["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    text = message["content"] or ""
    deltas += [{"content": text[at : at + 5]} for at in range(0, len(text), 5)]
    for index, call in enumerate(message.get("tool_calls", ())):
        written = call["function"]["arguments"]
        first = {**call, "function": {**call["function"], "arguments": written[:5]}}
        deltas.append({"tool_calls": [{"index": index, **first}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": written[5:]}}]})
    base = {**answer, "object": "chat.completion.chunk", "usage": None}
    for delta in deltas:
        chunk = {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield b"data: %b\n\n" % json.dumps(chunk).encode()
    reason = answer["choices"][0]["finish_reason"]
    last = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield b"data: %b\n\n" % json.dumps(last).encode()
    yield b"data: %b\n\n" % json.dumps({**base, "choices": [], "usage": answer["usage"]}).encode()
    yield b"data: [DONE]\n\n"


@contextmanager
def task_server(window: int | None = None, reply: Reply = reply) -> Iterator[TaskServer]:
    """A running server."""
    server = TaskServer(window, reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(404, "application/json", b'{"error": {"message": "no such page"}}')

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, answer = server.answer(body)
            if status == 200 and json.loads(body).get("stream"):
                self._send(200, "text/event-stream", b"".join(_streamed(answer)))
            else:
                self._send(status, "application/json", json.dumps(answer).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server._httpd = httpd
    thread = Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
