"""Which bytes did a client really send, and what if the server answers so?

A small HTTP server on real sockets. It keeps every request as it came, and answers what a test
says, or else a short reply that depends on the request alone.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

CUT = object()
"""In the chunks of an answer: the connection breaks here."""


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.json["messages"]
        return messages

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass(frozen=True)
class Answer:
    """What the server says: one body, or chunks of a stream, which may be bytes, an event to be
    waited for, or `CUT`."""

    body: bytes | list[Any] = b"{}"
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def completion(*messages: Mapping[str, Any], usage: Mapping[str, Any] | None = None) -> Answer:
    """A whole reply, one choice a message."""
    return Answer(
        json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": "null",
                "choices": [
                    {
                        "index": index,
                        "message": {"role": "assistant", **message},
                        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                        "logprobs": None,
                    }
                    for index, message in enumerate(messages)
                ],
                "usage": usage or {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
            }
        ).encode()
    )


def events(*messages: Mapping[str, Any], piece: int = 3) -> list[bytes]:
    """The server-sent events of a streamed reply, each a chunk; text comes in short pieces."""
    chunks: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        text = message.get("content") or ""
        deltas += [{"content": text[at : at + piece]} for at in range(0, len(text), piece)]
        for number, call in enumerate(message.get("tool_calls") or ()):
            arguments = call["function"]["arguments"]
            opening = {**call, "function": {**call["function"], "arguments": arguments[:4]}}
            deltas.append({"tool_calls": [{"index": number, **opening}]})
            rest = {"index": number, "function": {"arguments": arguments[4:]}}
            deltas.append({"tool_calls": [rest]})
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        chunks += [{"index": index, "delta": delta, "finish_reason": None} for delta in deltas]
        chunks.append({"index": index, "delta": {}, "finish_reason": reason})
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "null"}
    return [
        *(f"data: {json.dumps({**base, 'choices': [chunk]})}\n\n".encode() for chunk in chunks),
        b"data: [DONE]\n\n",
    ]


def sse(chunks: Iterable[Any], **headers: str) -> Answer:
    """An answer that streams these chunks."""
    return Answer(list(chunks), content_type="text/event-stream; charset=utf-8", headers=headers)


def usual(seen: Seen) -> Answer:
    """The reply to a chat request: one short text that follows from what came before it."""
    if seen.method != "POST":
        return Answer(b'{"error": {"message": "no such page"}}', status=404)
    if "chat/completions" not in seen.path:
        return Answer(b'{"object": "list", "data": [], "model": "null", "id": "x"}')
    text = f"reply {sha256(seen.body).hexdigest()[:8]}"
    wanted = [{"content": text}] * (seen.json.get("n") or 1)
    return sse(events(*wanted)) if seen.json.get("stream") else completion(*wanted)


class NullServer:
    """Runs in threads of its own between `start` and `stop`."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.respond: Callable[[Seen], Answer] = usual
        self.scripted: deque[Answer] = deque()
        """Answers to the next POSTs, before `respond` is asked again."""
        self.left = Event()
        """Set when a client went away in the middle of an answer."""
        self.connections = 0
        """How many clients connected."""
        self._lock = Lock()
        handler = type("Handler", (_Handler,), {"null": self})
        self._server = _Server(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def chats(self) -> list[Seen]:
        return [seen for seen in self.seen if "chat/completions" in seen.path]

    def start(self) -> None:
        Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, seen: Seen) -> Answer:
        with self._lock:
            self.seen.append(seen)
            if self.scripted and seen.method == "POST":
                return self.scripted.popleft()
        return self.respond(seen)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests; what else breaks shows at the client."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    null: NullServer

    def setup(self) -> None:
        super().setup()
        self.null.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        """Tests say themselves what they saw."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        seen = Seen(self.command, self.path, tuple(self.headers.items()), body)
        answer = self.null.answer(seen)
        try:
            self._say(answer)
        except OSError:
            self.null.left.set()
            self.close_connection = True

    def _say(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if isinstance(answer.body, bytes):
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in answer.body:
            if chunk is CUT:
                self.close_connection = True
                return
            if isinstance(chunk, Event):
                chunk.wait(10)
            elif chunk:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                time.sleep(0)
        self.wfile.write(b"0\r\n\r\n")
