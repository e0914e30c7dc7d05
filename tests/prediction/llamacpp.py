"""Does llama.cpp report what was predicted, request by request?

Sessions are played on a real server with a tiny model, and each request is predicted before it is
sent: from kvagent's own token ids, and from what the server generated until then.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count, cycle, islice
from pathlib import Path
from queue import Empty, Queue
from types import ModuleType
from typing import Any, Self

from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp, default_model
from kvagent.prefixcache import PromptTooLong
from kvagent.prefixcache import slots as real_rules
from kvagent.prefixcache.memory import Layout
from kvagent.prefixcache.slots import MIB, Busy, Running, SlotCache
from kvagent.tokens.model import Model
from tests.prediction.rows import Row
from tests.prediction.sessions import Body, Message, Session
from tests.tiny_model import KERNEL, LLAMA, STATE, Shape, write

BYTES = {"f32": 4.0, "f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Of one number in the KV cache."""


APART = 0.02
"""Seconds between two requests: those sent at once may overtake each other on their way to a slot."""


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

    def cache(self, user_marker: Sequence[int], simulation: ModuleType = real_rules) -> SlotCache:
        """The simulated one, by the classes in ``simulation``."""
        cache: SlotCache = simulation.SlotCache(
            self.slots,
            self.n_ctx,
            unified=self.unified,
            similarity=self.similarity,
            host_cache=None if self.host_mib < 0 else self.host_mib * MIB,
            idle_slots=self.idle_slots,
            layout=simulation.Layout(**asdict(self.layout())),
            n_ctx_train=self.shape.context,
            checkpoints=simulation.Rules(
                self.checkpoints, self.checkpoint_min_step, self.n_batch, self.n_ubatch
            ),
            swa_full=self.swa_full,
            user_marker=[] if self.plain_text else user_marker,
        )
        return cache

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


@dataclass(frozen=True, slots=True)
class Played:
    """One request as a simulation sees it, and what the real server reported."""

    prompt: Sequence[int]
    options: Mapping[str, Any]
    generated: Sequence[int]
    reported: int | None
    """None: the prompt was refused."""


class Player:
    """A server, its simulation, and requests that go to both.

    Args:
        setup: of the server.
        folder: where model files are, or are made.
        record: gets each request when it has been answered.
    """

    def __init__(
        self, setup: Setup, folder: Path, record: Callable[[Played], None] | None = None
    ) -> None:
        shape = setup.shape
        path = folder / f"{shape.architecture}-{shape.layers}x{shape.embedding}.gguf"
        if not path.exists():
            write(path, default_model(), shape)
        self._server = setup.server(path)
        self.model = Model.from_gguf(path, setup.template.read_text(encoding="utf-8"))
        self.cache = setup.cache(self.model.tokenizer.encode(setup.user_marker))
        self._waiting: list[_Turn] = []
        self._record = record or (lambda _: None)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def play(
        self, scenario: str, sessions: Sequence[Session], turns: Iterable[int] | None = None
    ) -> Iterator[Row]:
        """Requests one after the other, of the sessions in turn or in the order of ``turns``."""
        bodies: list[Body | None] = [next(session) for session in sessions]
        numbers = count()
        for index in cycle(range(len(sessions))) if turns is None else turns:
            body = bodies[index]
            if body is not None:
                row, reply = self.request(scenario, next(numbers), body)
                bodies[index] = _after(sessions[index], reply)
                yield row
            elif not any(bodies):
                return

    def play_at_once(
        self, scenario: str, sessions: Iterable[Session], at_once: int
    ) -> Iterator[Row]:
        """``at_once`` sessions at a time; rows come in the order of the answers."""
        numbers = count()
        to_come = iter(sessions)
        ready = [(session, next(session)) for session in islice(to_come, at_once)]
        asked: dict[_Turn, Session] = {}
        answers: Queue[tuple[_Turn, Any]] = Queue()

        def read(turn: _Turn) -> None:
            answers.put((turn, turn.read()))

        with ThreadPoolExecutor(at_once) as readers:
            while ready or asked:
                turn = self._turn(next(numbers), ready[0][1]) if ready else None
                until = time.monotonic() + (APART if turn else 600)
                # All that is answered is known to the simulation before the next request is.
                with contextlib.suppress(Empty):
                    while asked:
                        answered, answer = answers.get(timeout=max(0, until - time.monotonic()))
                        session = asked.pop(answered)
                        row, reply = self._settle(scenario, answered, answer)
                        yield row
                        body = _after(session, reply)
                        if body is not None:
                            ready.append((session, body))
                        else:
                            ready += [(other, next(other)) for other in islice(to_come, 1)]
                        if turn is None:
                            break
                if turn:
                    self._ask(turn)
                    asked[turn] = ready.pop(0)[0]
                    readers.submit(read, turn)

    def request(self, scenario: str, number: int, body: Body) -> tuple[Row, Message]:
        """Predict one request, send it, and let the simulation know what was generated."""
        turn = self._turn(number, body)
        self._ask(turn)
        return self._settle(scenario, turn, turn.read())

    def _turn(self, number: int, body: Body) -> _Turn:
        netloc = urllib.parse.urlsplit(self._server.base_url).netloc
        connection = http.client.HTTPConnection(netloc, timeout=60)
        return _Turn(number, body, self.model.tokens(body), connection)

    def _ask(self, turn: _Turn) -> None:
        """Predict the request, and send it."""
        try:
            self._begin(turn)
        except PromptTooLong:
            turn.refused = True
        turn.send()

    def _begin(self, turn: _Turn) -> None:
        try:
            turn.running = self.cache.begin(turn.prompt, **turn.options)
        except Busy:
            self._waiting.append(turn)

    def _settle(self, scenario: str, turn: _Turn, answer: Any) -> tuple[Row, Message]:
        """Let the simulation know of the answer."""
        if turn.refused:
            said = answer.get("error", {}).get("type")
            reported = 0 if said == "exceed_context_size_error" else -1
            row = Row(scenario, turn.number, len(turn.prompt), 0, 0, reported, "window")
            self._record(Played(turn.prompt, turn.options, (), None))
            return row, {"role": "assistant", "content": ""}
        if not turn.running or "usage" not in answer:
            raise RuntimeError(f"{scenario} {turn.number}: {turn.running} here, there {answer}")
        generated = answer["__verbose"]["tokens"]
        turn.running.finish(generated)
        self._let_in(turn.running.slot)
        hit, usage = turn.running.hit, answer["usage"]
        reported = usage["prompt_tokens_details"]["cached_tokens"]
        self._record(Played(turn.prompt, turn.options, generated, reported))
        if usage["prompt_tokens"] != hit.prompt_tokens:
            raise RuntimeError(f"{hit.prompt_tokens} tokens counted, {usage} reported")
        row = Row(
            scenario,
            turn.number,
            hit.prompt_tokens,
            hit.cached_tokens,
            hit.shared_tokens,
            reported,
            hit.loss,
        )
        return row, answer["choices"][0]["message"]

    def _let_in(self, slot: int) -> None:
        """A slot is free: for the first that waits for just this one, or else the first of all."""
        if self._waiting:
            pinned = (turn for turn in self._waiting if turn.body.get("id_slot") == slot)
            turn = next(pinned, self._waiting[0])
            self._waiting.remove(turn)
            self._begin(turn)


@dataclass(slots=True, eq=False)
class _Turn:
    """A request here and there."""

    number: int
    body: Body
    prompt: Sequence[int]
    connection: http.client.HTTPConnection
    running: Running | None = None
    refused: bool = False

    @property
    def options(self) -> Mapping[str, Any]:
        """What of the body matters for the cache, beside the prompt."""
        names = ("id_slot", "cache_prompt", "n_cache_reuse")
        return {name: self.body[name] for name in names if name in self.body}

    def send(self) -> None:
        payload = json.dumps({**self.body, "verbose": True, "return_tokens": True})
        headers = {"content-type": "application/json"}
        self.connection.request("POST", "/v1/chat/completions", payload, headers)

    def read(self) -> Any:
        with contextlib.closing(self.connection):
            return json.loads(self.connection.getresponse().read())


def _after(session: Session, reply: Message) -> Body | None:
    """The session's next request, None if that was the last."""
    try:
        return session.send(reply)
    except StopIteration:
        return None
