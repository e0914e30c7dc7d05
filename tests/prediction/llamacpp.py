"""Does llama.cpp report what was predicted, request by request?

Sessions are played on a real server with a tiny model, and each request is predicted before it is
sent: from kvagent's own token ids, and from what the server generated until then.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp, default_model
from kvagent.prefixcache.checkpoints import Rules
from kvagent.prefixcache.memory import Layout
from kvagent.prefixcache.slots import MIB, PromptTooLong, Running, SlotCache
from kvagent.tokens.model import Model
from tests.prediction.rows import Row
from tests.prediction.sessions import Body, Message, Session
from tests.tiny_model import KERNEL, LLAMA, STATE, Shape, write

BYTES = {"f32": 4.0, "f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Of one number in the KV cache."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the server is started, and so how it is simulated."""

    slots: int = 1
    n_ctx: int = 8192
    unified: bool = False
    host_mib: int = 8192
    """-1 is without limit, 0 is off."""
    similarity: float = 0.1
    shape: Shape = LLAMA
    template: Path = CHAT_TEMPLATE
    user_marker: str = "<|im_start|>user"
    kv_type: str = "f16"
    n_batch: int = 2048
    n_ubatch: int = 512
    checkpoints: int = 32
    checkpoint_min_step: int = 8192
    swa_full: bool = False
    idle_slots: bool = True
    plain_text: bool = False
    """Replies are not parsed; the server then knows no user turns in a prompt."""

    def server(self, model: Path) -> LlamaCpp:
        """The real one."""
        return LlamaCpp(
            model,
            self.template,
            n_ctx=self.n_ctx,
            n_parallel=self.slots,
            threads=1,
            cache_ram_mib=self.host_mib,
            parse_tool_calls=not self.plain_text,
            kv_unified=self.unified,
            slot_prompt_similarity=self.similarity,
            n_ctx_checkpoints=self.checkpoints,
            checkpoint_min_step=self.checkpoint_min_step,
            swa_full=self.swa_full,
            cache_idle_slots=self.idle_slots,
            n_batch=self.n_batch,
            n_ubatch=self.n_ubatch,
            cache_type_k=self.kv_type,
            cache_type_v=self.kv_type,
        )

    def cache(self, model: Model) -> SlotCache:
        """The simulated one."""
        marker = [] if self.plain_text else model.tokenizer.encode(self.user_marker)
        return SlotCache(
            self.slots,
            self.n_ctx,
            unified=self.unified,
            similarity=self.similarity,
            host_cache=None if self.host_mib < 0 else self.host_mib * MIB,
            idle_slots=self.idle_slots,
            layout=self.layout(),
            n_ctx_train=self.shape.context,
            checkpoints=Rules(
                self.checkpoints, self.checkpoint_min_step, self.n_batch, self.n_ubatch
            ),
            swa_full=self.swa_full,
            user_marker=marker,
        )

    def layout(self) -> Layout:
        """What the model's layers keep."""
        shape = self.shape
        if shape.architecture == "mamba":
            inner = 2 * shape.embedding
            state = (
                4 * inner * (KERNEL - 1 + STATE)
            )  # in 32 bits: the convolution's, and the model's
            return Layout(recurrent=shape.layers, state=state * shape.layers)
        row = int(2 * shape.kv_heads * shape.head * BYTES[self.kv_type])
        sliding = shape.layers - shape.layers // 6 if shape.window else 0
        full = shape.layers - sliding
        return Layout(row * full, full, shape.window, row * sliding, sliding)


class Player:
    """A server, its simulation, and requests that go to both.

    Args:
        setup: of the server.
        folder: where model files are, or are made.
    """

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        path = folder / f"{setup.shape.architecture}.gguf"
        if not path.exists():
            write(path, default_model(), setup.shape)
        self._server = setup.server(path)
        self.model = Model.from_gguf(path, setup.template.read_text(encoding="utf-8"))
        self.cache = setup.cache(self.model)
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        self._server.start()
        netloc = urllib.parse.urlsplit(self._server.base_url).netloc
        self._connection = http.client.HTTPConnection(netloc, timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection:
            self._connection.close()
        self._server.stop()

    def play(self, scenario: str, order: Iterable[Session]) -> Iterator[Row]:
        """The requests of the sessions, one after the other, in the order in which they have their turn."""
        started: set[int] = set()
        ended: set[int] = set()
        replies: dict[int, Message] = {}
        number = 0
        waiting: set[int] = set()
        for session in order:
            key = id(session)
            if key in ended:
                waiting.discard(key)
                if not waiting:
                    return
                continue
            waiting.add(key)
            try:
                body = session.send(replies[key]) if key in started else next(session)
            except StopIteration:
                ended.add(key)
                continue
            started.add(key)
            row, replies[key] = self.request(scenario, number, body)
            number += 1
            yield row

    def request(self, scenario: str, number: int, body: Body) -> tuple[Row, Message]:
        """Predict one request, send it, and let the simulation know what was generated."""
        prompt = self.model.tokens(body)
        try:
            running = self.begin(prompt, body)
        except PromptTooLong:
            answer = self.post("/v1/chat/completions", body)
            refused = answer["error"]["type"] == "exceed_context_size_error"
            row = Row(scenario, number, len(prompt), 0, 0, 0 if refused else -1, "too long")
            return row, {"role": "assistant", "content": ""}
        answer = self.post("/v1/chat/completions", body)
        running.finish(answer["__verbose"]["tokens"])
        hit, usage = running.hit, answer["usage"]
        reported = usage["prompt_tokens_details"]["cached_tokens"]
        if usage["prompt_tokens"] != hit.prompt_tokens:
            raise AssertionError(
                f"{hit.prompt_tokens} tokens counted, {usage['prompt_tokens']} reported"
            )
        row = Row(
            scenario,
            number,
            hit.prompt_tokens,
            hit.cached_tokens,
            hit.shared_tokens,
            reported,
            hit.loss,
        )
        return row, answer["choices"][0]["message"]

    def begin(self, prompt: list[int], body: Body) -> Running:
        """The request in the simulation, up to its first generated token."""
        options = {
            key: body[key] for key in ("id_slot", "cache_prompt", "n_cache_reuse") if key in body
        }
        return self.cache.begin(prompt, **options)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer."""
        assert self._connection
        payload = json.dumps({**body, "verbose": True, "return_tokens": True})
        self._connection.request("POST", path, payload, {"content-type": "application/json"})
        response = self._connection.getresponse()
        return json.loads(response.read())
