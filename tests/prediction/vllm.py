"""Does vLLM report what was predicted, request by request?

Sessions are played on a real server on the CPU with a tiny model, and each request is predicted before it is sent:
from its token ids, and from what the server generated until then.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

from kvagent.cli.demo.server import CHAT_TEMPLATE
from kvagent.prefixcache import PromptTooLong
from kvagent.prefixcache.blocks import BlockCache, Running
from kvagent.tokens.model import Model
from tests.prediction.rows import Row
from tests.prediction.sessions import Body, Message, Session

SERVE = Path(__file__).parent.parent / "vllm" / "serve.py"
START_TIMEOUT = 240.0
"""Seconds; 20 to 40 on two cores that have nothing else to do."""

SLIDING_WINDOW = 300
"""Of the model ``gemma``."""
WINDOWS: Mapping[str, Sequence[int | None]] = {"llama": (None,), "gemma": (SLIDING_WINDOW, None)}


@dataclass(frozen=True, slots=True)
class Setup:
    """How the server is started, and so how it is simulated."""

    model: str = "llama"
    block_size: int = 128
    blocks: int | None = 129
    """None lets the server fill ``space_gib``."""
    max_model_len: int = 16_384
    max_num_batched_tokens: int = 2048
    space_gib: int = 1
    adapters: Sequence[str] = ()
    """Names of LoRA adapters, which a request takes for its model."""

    def cache(self) -> BlockCache:
        """The simulated server."""
        return BlockCache(
            self.block_size,
            self.blocks,
            windows=WINDOWS[self.model],
            max_model_len=self.max_model_len,
            max_num_batched_tokens=self.max_num_batched_tokens,
        )

    def command(self, python: Path, model: Path, port: int) -> Sequence[str]:
        """The real one."""
        size = f"--block-size={self.block_size}"
        more = [] if self.blocks is None else [f"--num-gpu-blocks-override={self.blocks}"]
        if self.adapters:
            modules = [f"{name}={model.parent / 'adapter'}" for name in self.adapters]
            more += ["--enable-lora", f"--max-loras={len(modules)}", "--lora-modules", *modules]
        return [
            *(str(python), str(SERVE), f"--model={model}", "--served-model-name=m", size, *more),
            *("--host=127.0.0.1", f"--port={port}", f"--max-model-len={self.max_model_len}"),
            *("--dtype=bfloat16", "--enforce-eager"),
            f"--max-num-batched-tokens={self.max_num_batched_tokens}",
            *("--enable-prompt-tokens-details", "--enable-auto-tool-choice"),
            *("--tool-call-parser=hermes", f"--chat-template={CHAT_TEMPLATE}"),
            *("--trust-request-chat-template", "--disable-uvicorn-access-log"),
        ]


class VLLM:
    """A vLLM server on a free port of 127.0.0.1, from ``with`` to the end of the block.

    Args:
        setup: its settings.
        python: of the environment that has vLLM, with the models in ``models`` below its folder.
    """

    def __init__(self, setup: Setup, python: Path) -> None:
        self._setup = setup
        self._python = python
        self.model = python.parent.parent / "models" / setup.model
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed in __exit__)
        self.port = 0

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("VLLM_")},
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_CPU_KVCACHE_SPACE": str(self._setup.space_gib),
        }
        self._process = subprocess.Popen(
            self._setup.command(self._python, self.model, self.port),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            # The group lives on in its other processes when the first of them has ended.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()
        self._log.close()

    def _wait(self) -> None:
        assert self._process
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self.request("GET", "/health")
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"vLLM did not start:\n{self.log()[-3000:]}")

    def log(self) -> str:
        """What the server has printed so far."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace")

    def cache_size(self) -> int:
        """The tokens that its start-up line says."""
        found = re.search(r"KV cache size: ([\d,]+) tokens", self.log())
        assert found, "the server does not say how much it can keep"
        return int(found[1].replace(",", ""))

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The server's answer, whatever its status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"content-type": "application/json"})
            answer = connection.getresponse().read()
        finally:
            connection.close()
        return json.loads(answer) if answer else None


class Player:
    """A server, its simulation, and requests that go to both."""

    def __init__(self, server: VLLM, setup: Setup) -> None:
        self.server = server
        self.setup = setup
        self.cache = setup.cache()
        self._models: dict[str | None, Model] = {}
        self._lock = threading.Lock()

    def play(self, scenario: str, sessions: Iterable[Session]) -> Iterator[Row]:
        """The requests of the sessions, one after the other: round by round, each session has its turn.

        The cache is empty at first.
        """
        self.reset()
        numbers = count()
        turns = [(session, next(session)) for session in sessions]
        while turns:
            following = []
            for session, body in turns:
                row, reply = self.request(scenario, next(numbers), body)
                yield row
                with contextlib.suppress(StopIteration):
                    following.append((session, session.send(reply)))
            turns = following

    def play_at_once(self, scenario: str, sessions: Iterable[Session]) -> Sequence[Row]:
        """The same with all sessions at a time, each in a thread."""
        self.reset()
        numbers = count()

        def run(session: Session) -> list[Row]:
            rows = []
            body = next(session)
            with contextlib.suppress(StopIteration):
                while True:
                    row, reply = self.request(scenario, next(numbers), body)
                    rows.append(row)
                    body = session.send(reply)
            return rows

        sessions = list(sessions)
        with ThreadPoolExecutor(len(sessions)) as threads:
            return [row for rows in threads.map(run, sessions) for row in rows]

    def reset(self) -> None:
        """Empty both caches."""
        self.server.request("POST", "/reset_prefix_cache", {})
        self.cache.reset()

    def request(self, scenario: str, number: int, body: Body) -> tuple[Row, Message]:
        """Predict one request, send it, and let the simulation know what was generated."""
        prompt = self.tokens(body)
        try:
            with self._lock:
                running = self.begin(prompt, body)
        except PromptTooLong:
            refused = "error" in self.send(body)
            row = Row(scenario, number, len(prompt), 0, 0, 0 if refused else -1)
            return row, {"role": "assistant", "content": ""}
        answer = self.send(body)
        if "error" in answer:
            raise AssertionError(answer["error"]["message"])
        choice, usage = answer["choices"][0], answer["usage"]
        sent = answer.get("prompt_token_ids") or choice["prompt_token_ids"]
        if sent != prompt:
            raise AssertionError(f"the server computes other tokens for {scenario} {number}")
        with self._lock:
            running.finish(choice["token_ids"], stopped=choice["finish_reason"] != "length")
        hit = running.hit
        assert hit
        reported = usage["prompt_tokens_details"]["cached_tokens"]
        row = Row(
            scenario,
            number,
            hit.prompt_tokens,
            hit.cached_tokens,
            hit.shared_tokens,
            reported,
            hit.loss,
        )
        return row, reply_of(choice)

    def begin(self, prompt: Sequence[int], body: Body) -> Running:
        """The request in the simulation."""
        return self.cache.begin(
            prompt,
            salt=body.get("cache_salt"),
            lora=body["model"] if body["model"] in self.setup.adapters else None,
            read="prompt_logprobs" not in body,
        )

    def tokens(self, body: Body) -> list[int]:
        """What the server will compute on."""
        if "prompt" in body:
            return list(body["prompt"])
        own = {key: value for key, value in body.items() if key != "chat_template"}
        return self.model(body.get("chat_template")).tokens(own)

    def model(self, template: str | None) -> Model:
        """The tokenizer with this template, or with the server's own."""
        if template not in self._models:
            source = template or CHAT_TEMPLATE.read_text(encoding="utf-8")
            self._models[template] = Model.from_folder(self.server.model, source)
        return self._models[template]

    def send(self, body: Body) -> Any:
        """The server's answer."""
        model = body["model"] if body["model"] in self.setup.adapters else "m"
        path = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
        return self.server.request("POST", path, {**body, "model": model, "return_token_ids": True})


def reply_of(choice: Mapping[str, Any]) -> Message:
    """What an agent keeps of an answer: the message, or what was generated if it sent tokens."""
    if "message" not in choice:
        return {"role": "assistant", "content": choice["text"], "tokens": choice["token_ids"]}
    message = choice["message"]
    kept = {key: message[key] for key in ("content", "reasoning", "tool_calls") if message.get(key)}
    return {"role": "assistant", "content": "", **kept}
