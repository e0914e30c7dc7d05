"""Which are the tokens of a request, if a running server is asked for them?

The ids are the server's own, one question a request. Where the messages stand among them follows
from what the request before had in common with it, and from how long each new message is by itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from kvagent.audit.conversations import Placed
from kvagent.audit.counting import Counting, target_of, weighed
from kvagent.audit.prediction import Target
from kvagent.audit.prompts import Estimated, Ids, Tokens
from kvagent.audit.recent import Recent
from kvagent.audit.settings import Settings, SettingsError
from kvagent.backends import PROMPT_KEYS, Fetch, Fetched, PromptError, Server, condition, probe
from kvagent.chat import shown
from kvagent.prefixcache.seen import common_prefix
from kvagent.tokens.server import ServerTokens

if TYPE_CHECKING:
    from kvagent.tokens.profile import TemplateProfile

T = TypeVar("T")

# Tokens of the last prompts, and counts of messages, that are held.
_ROOM = 4_000_000
_COUNTS = 100_000


class Ask(Protocol):
    """Speaks with a server."""

    def __call__(self, flow: Generator[Fetch, Fetched, T], /) -> T:
        """Answer all that a flow asks for, and give what it returns."""


Profiling = Callable[[Server], "Generator[Fetch, Fetched, TemplateProfile]"]
"""Asks a server what its chat template does."""


def served(settings: Settings, url: str, ask: Ask, profiling: Profiling | None = None) -> Counting:
    """The counting by a running server, which is predicted for as well unless another is set.

    Args:
        settings: what was set.
        url: its address, for people.
        ask: speaks with it.
        profiling: asks what its template does; None: nobody asks.

    Raises:
        SettingsError: it is of a kind that tells no tokens, or the settings do not go together.
    """
    if settings.template is not None:
        raise SettingsError(f"--template: {url} renders with a template of its own")
    server = ask(probe(None))
    if server.kind == "openai":
        raise SettingsError(f"{url} tells no tokens, as vLLM and llama.cpp do: give the model's "
                            "GGUF file or its Hugging Face folder")  # fmt: skip
    now = ask(condition(server))
    usual = Target()
    known = Target(
        server.kind,
        block_size=server.block_size or usual.block_size,
        blocks=now.blocks,
        slots=server.slots or usual.slots,
        window=server.window,
    )

    @cache  # it takes a hundred questions
    def profile() -> TemplateProfile | None:
        try:
            return None if profiling is None else ask(profiling(server))
        except PromptError:
            return None

    tokens, target = ServerTokens(server), target_of(settings, server.kind, known)
    return Counting(lambda: Served(tokens, ask, profile), target, weighed(settings))


class Served:
    """By a running server; what it refuses is estimated.

    Args:
        server: says what to ask for.
        ask: speaks with it.
        profile: says what its template does.
    """

    exact = True

    def __init__(
        self,
        server: ServerTokens,
        ask: Ask,
        profile: Callable[[], TemplateProfile | None] = lambda: None,
    ) -> None:
        self._server = server
        self._ask = ask
        self._profile = profile
        self._last: Recent[int, tuple[Ids[int], Sequence[int]]] = Recent(_ROOM)
        self._counts: Recent[bytes, int] = Recent(_COUNTS)
        self._instead = Estimated()

    @property
    def name(self) -> str:
        """What the tokens come from."""
        return self._server.name

    @property
    def profile(self) -> TemplateProfile | None:
        """What its template does to a prompt that grows."""
        return self._profile()

    def count(self, text: str) -> int:
        """The tokens of a text by itself; an estimate where the server does not answer."""
        try:
            return self._ask(self._server.count(text))
        except PromptError:
            return self._instead.count(text)

    def ahead(self, placed: Sequence[Placed]) -> None:
        """Each request is a question of its own."""

    def tokens(self, placed: Placed) -> Tokens:
        """The tokens that the server computes on."""
        last = None if placed.left is None else self._last.get(placed.left)
        if last is not None and _is_the_same(placed):
            ids, starts = last
        else:
            try:
                ids = array("I", self._ask(self._server.tokens(self._body(placed))))
            except PromptError as error:
                made = self._instead.tokens(placed)
                return Tokens(made.ids, made.starts, exact=False, fault=error.fault)
            starts = self._starts(placed, ids, last)
        self._last.put(placed.branch, (ids, starts), len(ids) + len(starts))
        return Tokens(ids, starts, exact=True, texts=partial(self._texts, placed))

    def _texts(self, placed: Placed) -> tuple[str, str]:
        """What the server renders of the request before this one, and of this one."""
        if placed.before is None:
            return "", ""
        try:
            before = {**placed.before.again(), **self._named()}
            after = self._body(placed)
            return self._ask(self._server.prompt(before)), self._ask(self._server.prompt(after))
        except (PromptError, ValueError):
            return "", ""

    def _named(self) -> dict[str, Any]:
        """The model goes by the server's own name for it."""
        model = self._server.server.model
        return {} if model is None else {"model": model}

    def _body(self, placed: Placed) -> dict[str, Any]:
        """What shapes the prompt. Raises ``PromptError``."""
        request = placed.request
        body: dict[str, Any] = {
            key: value for key, value in request.options.items() if key in PROMPT_KEYS
        }
        body["messages"] = list(request.messages)
        if request.tools:
            body["tools"] = list(request.tools)
        body |= self._named()
        try:
            orjson.dumps(body)
        except (TypeError, ValueError) as error:  # half a surrogate pair, a number without end
            raise PromptError(f"the request is no JSON that can be sent: {error}") from error
        return body

    def _starts(
        self, placed: Placed, ids: Ids[int], last: tuple[Ids[int], Sequence[int]] | None
    ) -> Sequence[int]:
        """In front of which token each message begins."""
        snapshot = placed.snapshot
        kept: list[int] = []
        if last is not None:
            before, common = last[1], placed.common
            shared = common_prefix(last[0], ids)
            # Messages that stand where they stood, and behind them the first one that does not.
            kept = [start for start in before[:common] if start <= shared]
            if len(kept) == common < len(before):
                kept.append(min(before[common], shared))
        kept = kept or [0]
        begin = kept[-1]
        weights = [
            self._weight(placed, number) for number in range(len(kept) - 1, len(snapshot.messages))
        ]
        if snapshot.tools and len(kept) <= max(snapshot.head, 1):
            # Most templates put tools behind the system message.
            weights[max(snapshot.head, 1) - len(kept)] += sum(map(self._raw, snapshot.tools))
        total, room = max(sum(weights), 1), len(ids) - begin
        starts, sum_so_far = list(kept), 0
        for weight in weights:
            sum_so_far += weight
            starts.append(begin + room * sum_so_far // total)
        starts[-1] = len(ids)
        return starts

    def _weight(self, placed: Placed, number: int) -> int:
        raw = placed.snapshot.messages[number].raw
        held = self._counts.get(raw)
        if held is None:
            held = self.count(shown(placed.request.messages[number])) + 4
            self._counts.put(raw, held)
        return held

    def _raw(self, tool: bytes) -> int:
        held = self._counts.get(tool)
        if held is None:
            held = self.count(tool.decode(errors="replace"))
            self._counts.put(tool, held)
        return held


def _is_the_same(placed: Placed) -> bool:
    """Whether the request is the one before once more."""
    old = placed.before
    return (
        old is not None
        and not placed.head_changed
        and placed.common == len(old.messages) == len(placed.snapshot.messages)
    )
