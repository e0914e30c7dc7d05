"""Does the doctor tell in words what servers of no known kind answer?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from typer.testing import CliRunner

from kvagent import cli

runner = CliRunner()
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server of models of these names, which gives every chat request this answer."""
    servers: list[ThreadingHTTPServer] = []

    def start(*models: str, chat: tuple[int, str] = (500, "")) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/v1/models":
                    self.answer(200, json.dumps({"data": [{"id": m} for m in models]}))
                else:
                    self.answer(404, "")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
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


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((200, "<html>\n hello</html>"), "not with a JSON object: <html> hello</html>"),
        ((200, '{"usage": '), "not with a JSON object"),
        ((200, "[1]"), "not with a JSON object"),
        ((500, '{"error": {"message": "no [/INST] here"}}'), "refused (500): no [/INST] here"),
        ((422, '{"detail": "which?"}'), "refused (422): which?"),
        ((429, '{"error": "slow\\n down"}'), "refused (429): slow down"),
        ((502, ""), "refused (502): status 502"),
    ],
)
def test_a_chat_request_that_gets_no_reply(
    serve: Serve, answer: tuple[int, str], sentence: str
) -> None:
    result = runner.invoke(cli.main, ["doctor", "--json", "--base-url", serve("m", chat=answer)])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    (finding,), (note,) = report["findings"], report["notes"]
    assert "pass the model" not in note, "there is nothing to pass it with"
    assert finding["code"] == "chat-refused"
    assert sentence in finding["seen"]


@pytest.mark.parametrize("name", ["[/bold]", "[red]m", "m[0]", "日本語"])
def test_a_model_of_any_name(serve: Serve, name: str) -> None:
    url = serve(name, chat=(500, "no [/INST] here"))
    result = runner.invoke(cli.main, ["doctor", "--base-url", url], env={"COLUMNS": "120"})
    assert result.exit_code == 1
    assert name in result.stdout
    assert "no [/INST] here" in result.stdout


@pytest.mark.parametrize("models", [(), ("a", "b")])
def test_which_model_is_asked_before_anything_is_sent(serve: Serve, models: tuple[str]) -> None:
    url = serve(*models)
    result = runner.invoke(cli.main, ["doctor", "--base-url", url], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert "name one with --model" in result.stdout
    assert "as far as can be seen without a request" in result.stdout
    result = runner.invoke(cli.main, ["doctor", "--base-url", url, "--model", "a"])
    assert "chat-refused" in result.stdout


def test_a_model_that_the_server_has_not_is_named_with_the_one_it_has(serve: Serve) -> None:
    url = serve("only")
    told = {}
    for model in ("only", "typo"):
        words = ["doctor", "--base-url", url, "--passive", "--json", "--model", model]
        result = runner.invoke(cli.main, words)
        told[model] = result.exit_code, json.loads(result.stdout)["findings"]
    assert told["only"] == (0, [])
    status, (finding,) = told["typo"]
    assert (status, finding["code"]) == (1, "model-unlisted")
    assert "no model typo, only only" in finding["seen"]
