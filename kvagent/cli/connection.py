"""How does a command speak with a server, and what does it say when nobody sensible answers?

Plain HTTP of the standard library: the core has no HTTP client of its own, and a command asks one
question after another.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from kvagent.backends import Fetch, Fetched
from kvagent.cli.failure import Failure

T = TypeVar("T")

_API = "/v1"
_MOST = 1 << 26  # bytes of an answer: metrics and rendered prompts have a few hundred thousand
_SLOWEST_ANSWER_S = 600.0  # a prompt of 100,000 tokens on a CPU takes minutes
_SLOWEST_LOOK_S = 60.0  # a GET waits at most for a batch that is being computed


@dataclass(frozen=True, slots=True)
class Connection:
    """A server at ``root`` whose OpenAI API lies at ``api``, both without a final slash."""

    root: str
    api: str
    key: str | None = None
    timeout_s: float = _SLOWEST_ANSWER_S

    def fetch(self, fetch: Fetch) -> Fetched:
        """The answer; status 0 when there is none. Never raises for what a server does."""
        base = self.api if fetch.base == "api" else self.root
        slowest = min(self.timeout_s, _SLOWEST_LOOK_S) if fetch.json is None else self.timeout_s
        return _asked(base + fetch.path, fetch.json, self.key, slowest)

    def run(self, flow: Generator[Fetch, Fetched, T]) -> T:
        """Answer everything that a flow asks for, and give what it returns."""
        try:
            fetch = next(flow)
            while True:
                fetch = flow.send(self.fetch(fetch))
        except StopIteration as stop:
            value: T = stop.value
            return value


def connect(base_url: str, key: str | None = None) -> Connection:
    """The connection, once somebody at ``base_url`` has answered like a server of models.

    ``base_url`` is that of an OpenAI client, with ``/v1`` at its end; without it, it is added.

    Raises:
        Failure: nobody answers, or not in this way; one sentence says how it looks and what to do.
    """
    url = base_url.rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Failure(f"{base_url} is no URL of a server: write http://HOST:PORT/v1")
    api = url if url.endswith(_API) else url + _API
    answer = _asked(f"{api}/models", None, key, timeout_s=10)
    if answer.status == 404 and api != url:
        elsewhere = _asked(f"{url}/models", None, key, timeout_s=10)
        if 200 <= elsewhere.status < 300:
            api, answer = url, elsewhere
    _refuse(answer, api)
    return Connection(api.removesuffix(_API), api, key)


def _refuse(answer: Fetched, api: str) -> None:
    where = f"{api}/models"
    begin = answer.body[:512].lstrip().lower()
    if answer.status == 0:
        raise Failure(f"nothing answers at {api}: {answer.body.decode(errors='replace')}. "
                      "Is the server running, and are host and port right?")  # fmt: skip
    if answer.status in (401, 403):
        raise Failure(f"{where} wants a key ({answer.status}): give it with --api-key or in "
                      "OPENAI_API_KEY")  # fmt: skip
    if answer.status == 503:
        raise Failure(f"the server at {api} is still loading its model (503): try again later")
    if answer.status == 404:
        raise Failure(f"there is no {where} (404): give the URL that an OpenAI client takes as "
                      "base_url, such as http://127.0.0.1:8000/v1")  # fmt: skip
    if begin.startswith((b"<!doctype", b"<html", b"<?xml", b"<")):
        raise Failure(f"{where} answers with a web page, not with JSON: this is no server of "
                      "models, or a proxy stands before it")  # fmt: skip
    if not 200 <= answer.status < 300:
        raise Failure(f"{where} answers with status {answer.status}: "
                      f"{answer.body[:200].decode(errors='replace').strip() or 'nothing more'}")  # fmt: skip
    try:
        listed = isinstance(orjson.loads(answer.body)["data"], list)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        listed = False
    if not listed:
        raise Failure(f"{where} does not answer with a list of models: this is no server that "
                      "speaks the OpenAI API")  # fmt: skip


def _asked(url: str, body: Mapping[str, Any] | None, key: str | None, timeout_s: float) -> Fetched:
    headers = {"Accept": "application/json", "User-Agent": "kvagent"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = None
    if body is not None:
        data = orjson.dumps(body)
        headers["Content-Type"] = "application/json"
    try:
        request = urllib.request.Request(url, data, headers)  # noqa: S310  (http and https only)
        with _OPENER.open(request, timeout=timeout_s) as response:
            got = response.read(_MOST)
            if response.length and len(got) < _MOST:
                return Fetched(0, b"the answer broke off in the middle")
            return Fetched(response.status, got)
    except urllib.error.HTTPError as error:
        with error:
            if 300 <= error.code < 400:
                return Fetched(error.code, f"go to {error.headers['Location']}".encode())
            return Fetched(error.code, error.read(_MOST))
    except urllib.error.URLError as error:
        return Fetched(0, _reason(error.reason).encode())
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Fetched(0, _reason(error).encode())


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no one elsewhere: the key would go along."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stay)


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
