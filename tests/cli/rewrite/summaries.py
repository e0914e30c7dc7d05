"""What does a server say that is asked for summaries, and what was it asked?"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from tests.compaction.good import good


class Summaries:
    """A server with one model, which answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.answer: Any = None
        handler = type("Handler", (_Handler,), {"summaries": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, request: dict[str, Any]) -> Any:
        if self.answer is not None:
            return self.answer
        message = {"role": "assistant", "content": good(request).text}
        cached = {"cached_tokens": 900}
        usage = {
            "prompt_tokens": 1_000,
            "completion_tokens": 50,
            "prompt_tokens_details": cached,
        }
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    summaries: Summaries

    def log_message(self, format: str, *args: object) -> None:
        """Tests say themselves what they saw."""

    def do_GET(self) -> None:
        self._say(200, {"object": "list", "data": [{"id": "served"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.summaries.asked.append(request)
        self.summaries.keys.append(self.headers["authorization"])
        self._say(self.summaries.status, self.summaries.reply(request))

    def _say(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
