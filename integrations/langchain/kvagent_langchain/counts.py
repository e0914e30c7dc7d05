"""What do a run's requests come to, by model and by conversation?"""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock

from rich.console import RenderableType

from kvagent import CacheMissed, Edited, Engine, Event, Policy, PrefixBroken, TurnFinished
from kvagent.options import callable_of
from kvagent.tokens import count_tokens
from kvagent_langchain.report import plain, render
from kvagent_langchain.tally import Conversation, Tally

# Bounds on what is kept in a process that runs for months.
_MOST_CONVERSATIONS = 1_000
_MOST_LOSSES = 1_000

# A shorter prompt may have no whole block that could be cached.
_SURELY_CACHED = 64

_NO_USAGE = (
    "{model}: a reply does not say how many tokens it took (usage_metadata is None), so they cannot "
    "be counted. If it was streamed, pass stream_usage=True to the chat model: ChatOpenAI leaves "
    "the usage out of streams where base_url is set."
)
_NO_CACHED = (
    "{model}: replies do not say how many prompt tokens came from the cache (usage_metadata has no "
    "input_token_details.cache_read), so there is no hit rate. If the server is vLLM, start it with "
    "--enable-prompt-tokens-details."
)


class MissingUsageWarning(UserWarning):
    """A chat model does not report what is to be counted; the text says what to switch on.

    A warning and not a log record, because the calling code can mend it.
    """


class Counts:
    """What engines that only look tell of the requests that they are shown."""

    def __init__(
        self,
        window: int | Mapping[str, int] | None,
        warn_at: Sequence[float],
        on_event: Callable[[Event], object] | None,
    ) -> None:
        super().__init__()
        for each in window.values() if isinstance(window, Mapping) else (window,):
            _observing(each, warn_at)  # wrong settings are told at once
        count_tokens("a")  # reads the tokenizer's tables: half a second, and not in the first turn
        self._window = window
        self._warn_at = warn_at
        self._on_event = callable_of("on_event", on_event)
        self._lock = Lock()
        self._engines: dict[str, Engine] = {}
        self._total = Tally()
        self._models: dict[str, Tally] = {}
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()
        self._losses: deque[PrefixBroken | CacheMissed] = deque(maxlen=_MOST_LOSSES)
        self._notes: dict[tuple[str, str], str] = {}

    @property
    def turns(self) -> int:
        """Answered requests."""
        return self._total.turns

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts, cached ones included."""
        return self._total.prompt_tokens

    @property
    def cached_tokens(self) -> int | None:
        """How many of them came from a cache; None while no reply says so."""
        return self._total.cached_tokens

    @property
    def prefilled_tokens(self) -> int | None:
        """How many of them were computed; None while no reply says how many were cached."""
        return self._total.prefilled_tokens

    @property
    def completion_tokens(self) -> int:
        """Tokens that were generated."""
        return self._total.completion_tokens

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that came from a cache; None while no reply says so."""
        return self._total.hit_rate

    @property
    def lost_tokens(self) -> int:
        """About what was prefilled again because of breaks and misses."""
        return self._total.lost_tokens

    @property
    def breaks(self) -> list[PrefixBroken]:
        """Where a prompt left the one before it, and why; the newest thousand breaks and misses."""
        return [loss for loss in self._kept_losses() if isinstance(loss, PrefixBroken)]

    @property
    def misses(self) -> list[CacheMissed]:
        """Where a prompt only grew and still was not in the cache, and the likely cause."""
        return [loss for loss in self._kept_losses() if isinstance(loss, CacheMissed)]

    @property
    def models(self) -> dict[str, Tally]:
        """The sums of each model."""
        with self._lock:
            return {name: replace(tally) for name, tally in self._models.items()}

    @property
    def conversations(self) -> list[Conversation]:
        """The newest thousand conversations; the last one had its turn last."""
        with self._lock:
            return [conversation.copy() for conversation in self._conversations.values()]

    def report(self) -> str:
        """All of it as text in 80 columns; ``rich.print(meter)`` shows it in colours."""
        return plain(self.__rich__())

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        hit = "unknown" if self.hit_rate is None else f"{self.hit_rate:.1%}"
        name = type(self).__name__
        return (
            f"<{name}: {self.turns:,} turns, {self.prompt_tokens:,} prompt tokens, hit rate {hit}>"
        )

    def __rich__(self) -> RenderableType:
        with self._lock:
            total, notes = replace(self._total), list(self._notes.values())
        return render(total, self.models, self.conversations, self._kept_losses(), notes)

    def _kept_losses(self) -> list[PrefixBroken | CacheMissed]:
        with self._lock:
            return list(self._losses)

    def _engine(self, model: str) -> Engine:
        """The engine of a model: each has a tokenizer and a window of its own."""
        with self._lock:
            engine = self._engines.get(model)
            if engine is None:
                window = self._window
                if isinstance(window, Mapping):
                    window = window.get(model)
                policy = _observing(window, self._warn_at)
                told = partial(self._told, model)
                engine = self._engines[model] = Engine(policy, stages=(), on_event=told)
            return engine

    def _told(self, model: str, event: Event) -> None:
        unreported = False
        with self._lock:
            conversation = self._conversation(model, event)
            if isinstance(event, Edited):
                broken = conversation.break_of(event) if conversation is not None else None
                if broken is None:
                    return
                event = broken
            if isinstance(event, CacheMissed) and conversation is not None:
                if conversation.was_broken:  # which says why
                    return
            if isinstance(event, PrefixBroken | CacheMissed):
                self._losses.append(event)
            tally = self._models.setdefault(model, Tally())
            if isinstance(event, TurnFinished) and conversation is not None:
                unreported = _is_unreported(event, tally, conversation)
            for each in (self._total, tally, conversation):
                if each is not None:
                    each.add(event)
        if self._on_event is not None:
            self._on_event(event)  # the engine logs what it raises
        if unreported:
            self._warn(model, _NO_CACHED)

    def _conversation(self, model: str, event: Event) -> Conversation | None:
        name = getattr(event, "conversation", None)
        if name is None:
            return None
        conversation = self._conversations.pop((model, name), None)
        if conversation is None:
            conversation = Conversation(name=name, model=model)
        self._conversations[model, name] = conversation
        if len(self._conversations) > _MOST_CONVERSATIONS:
            self._conversations.popitem(last=False)
        return conversation

    def _uncounted(self, model: str) -> None:
        """A reply says nothing of its tokens."""
        self._warn(model, _NO_USAGE)

    def _warn(self, model: str, text: str) -> None:
        """Say once what is missing; the report says it again."""
        note = text.format(model=model)
        with self._lock:
            if (model, text) in self._notes:
                return
            self._notes[model, text] = note
        warnings.warn(note, MissingUsageWarning, stacklevel=2)


def _observing(window: int | None, warn_at: Sequence[float]) -> Policy:
    """The policy of an engine that only looks."""
    return Policy(
        mode="observe",
        window=window,
        warn_at=tuple(warn_at),
        pin_head=None,
        echo=None,
        evict=None,
        clear=None,
        compact=None,
        mend=None,
        probe=False,
    )


def _is_unreported(event: TurnFinished, model: Tally, conversation: Conversation) -> bool:
    """Whether a turn surely took something from the cache, and no reply of its model ever said so.

    A server may leave the count out where it is 0, so a prompt that broke is no evidence.
    """
    return (
        event.turn > 1
        and not conversation.broken
        and model.cached_tokens is None
        and event.cached_tokens is None
        and (event.prompt_tokens or 0) >= _SURELY_CACHED
    )
