"""Is every strange answer told in one plain sentence?

The answers are those that real servers and proxies give; a real one cannot be made to give them all.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from kvagent.backends import Fetch, Fetched
from kvagent.cli.connection import connect
from kvagent.cli.failure import Failure

Serve = Callable[[Mapping[str, tuple[int, str]]], str]

MODELS = '{"object": "list", "data": []}'
NGINX = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body></html>"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that has these paths; gives its URL. Says whether the key is right."""
    servers: list[ThreadingHTTPServer] = []

    def start(paths: Mapping[str, tuple[int, str]]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = paths.get(self.path, (404, '{"detail":"Not Found"}'))
                if status == 401 and self.headers.get("Authorization") == "Bearer right":
                    status, text = 200, MODELS
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", text)
                self.end_headers()
                self.wfile.write(text.encode())

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                self.send_response(200)
                self.end_headers()
                self.wfile.write(self.rfile.read(length))

            def log_message(self, *_: object) -> None:
                """Nothing on stderr."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("given", ["/v1", "/v1/", "", "/"])
def test_with_and_without_v1(serve: Serve, given: str) -> None:
    url = serve({"/v1/models": (200, MODELS)})
    connection = connect(url + given)
    assert (connection.root, connection.api) == (url, f"{url}/v1")


def test_an_api_that_lies_elsewhere(serve: Serve) -> None:
    url = serve({"/openai/models": (200, MODELS)})
    assert connect(f"{url}/openai").api == f"{url}/openai"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((404, "Not Found"), "give the URL that an OpenAI client takes as base_url"),
        ((401, '{"error":"no"}'), "wants a key (401): give it with --api-key"),
        ((403, "no"), "wants a key (403)"),
        ((503, '{"error":{"message":"Loading model"}}'), "still loading its model (503)"),
        ((502, NGINX), "a web page, not with JSON"),
        ((200, NGINX), "a web page, not with JSON"),
        ((500, "out of memory"), "answers with status 500: out of memory"),
        ((500, ""), "status 500: nothing more"),
        ((200, "ok"), "does not answer with a list of models"),
        ((200, "[]"), "does not answer with a list of models"),
        ((200, '{"data": {}}'), "does not answer with a list of models"),
        ((307, "http://elsewhere/v1/models"), "status 307: go to http://elsewhere/v1/models"),
    ],
)
def test_strange_answers(serve: Serve, answer: tuple[int, str], sentence: str) -> None:
    with pytest.raises(Failure) as failure:
        connect(serve({"/v1/models": answer}))
    assert sentence in str(failure.value)
    assert "\n" not in str(failure.value)


def test_the_key(serve: Serve) -> None:
    url = serve({"/v1/models": (401, "")})
    assert connect(url, "right").key == "right"
    with pytest.raises(Failure, match="wants a key"):
        connect(url, "wrong")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "nope", "ftp://host/v1", "http://", ""])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(Failure, match="is no URL of a server: write http"):
        connect(url)


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Failure, match=r"nothing answers at .*: Connection refused"):
            connect(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")


def test_somebody_listens_and_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            peer, _ = listener.accept()
            peer.recv(1000)
            peer.close()

        thread = Thread(target=hang_up)
        thread.start()
        with pytest.raises(Failure, match="nothing answers at"):
            connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_an_answer_that_breaks_off_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def break_off() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + MODELS.encode())

        thread = Thread(target=break_off)
        thread.start()
        with pytest.raises(Failure, match="broke off in the middle"):
            connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_a_flow_is_answered(serve: Serve) -> None:
    connection = connect(serve({"/v1/models": (200, MODELS), "/health": (200, "fine")}))

    def flow() -> Generator[Fetch, Fetched, tuple[bytes, bytes]]:
        health = yield Fetch("/health", "root")
        echoed = yield Fetch("/echo", "api", {"text": "Grüß Gott"})
        return health.body, echoed.body

    assert connection.run(flow()) == (b"fine", '{"text":"Grüß Gott"}'.encode())
