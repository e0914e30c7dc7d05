"""Is an answer that is no reply told in words, beside the request it belongs to?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from kvagent import cli

runner = CliRunner()
Serve = Callable[[tuple[int, str]], str]

WINDOW = 256
TOLD: Mapping[str, Any] = {
    "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
    "/props": {"default_generation_settings": {"n_ctx": WINDOW}, "total_slots": 1},
}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Like a llama.cpp which gives every chat request this answer; a word is a token."""
    servers: list[ThreadingHTTPServer] = []

    def start(chat: tuple[int, str]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = TOLD.get(self.path)
                self.answer(404 if said is None else 200, json.dumps(said))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/apply-template":
                    text = body["messages"][0]["content"]
                    good, bad = {"prompt": text}, {"error": {"message": "no text"}}
                    self.answer(*((200, json.dumps(good)) if text else (400, json.dumps(bad))))
                elif self.path == "/tokenize":
                    words = body["content"].split()
                    self.answer(200, json.dumps({"tokens": list(range(len(words)))}))
                else:
                    self.answer(*chat)

            def answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Nothing on stderr."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def recorded(folder: Path, content: str) -> str:
    file = folder / "requests.jsonl"
    file.write_text(json.dumps({"messages": [{"role": "user", "content": content}]}) + "\n")
    return str(file)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ((200, "<html>hello</html>"), "answered, but not with a JSON object: <html>hello</html>"),
        ((200, '{"usage": '), "answered, but not with a JSON object"),
        ((500, '{"error": {"message": "no [/INST] here"}}'), "refused (500): no [/INST] here"),
    ],
)
def test_what_is_no_reply_is_a_fault(
    serve: Serve, tmp_path: Path, answer: tuple[int, str], fault: str
) -> None:
    arguments = ["verify", recorded(tmp_path, "Hello"), "--base-url", serve(answer)]
    result = runner.invoke(cli.main, [*arguments, "--json"])
    assert result.exit_code == 1
    assert fault in json.loads(result.stdout)["rows"][0]["fault"]
    result = runner.invoke(cli.main, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert fault in result.stdout


@pytest.mark.parametrize(("status", "right"), [(400, 1), (500, 0)])
def test_only_a_refusal_proves_that_a_prompt_was_too_long(
    serve: Serve, tmp_path: Path, status: int, right: int
) -> None:
    file = recorded(tmp_path, "word " * 2 * WINDOW)
    url = serve((status, ""))
    result = runner.invoke(cli.main, ["verify", file, "--base-url", url, "--json"])
    assert json.loads(result.stdout)["right"] == right


def test_what_no_server_reads_is_not_sent(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text('{"messages": [{"role": "user", "content": "\\ud800"}]}\n')
    result = runner.invoke(cli.main, ["verify", str(file), "--base-url", serve((200, "{}"))])
    assert result.exit_code == 2
    assert "line 1 holds what no server reads" in result.stderr


def test_when_nothing_could_be_compared(serve: Serve, tmp_path: Path) -> None:
    file = recorded(tmp_path, "")
    result = runner.invoke(cli.main, ["verify", file, "--base-url", serve((200, "{}"))])
    assert result.exit_code == 2
    assert "/apply-template refuses the request: no text" in result.stderr
