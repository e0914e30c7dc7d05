"""Which narratives of old turns are there, which are being written, and by whom?

A narrative stands for the messages up to an entry. It is asked for once: what came of it, also
that nothing did, is kept in the store, where other processes find it too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from threading import Lock, Thread
from typing import Any

import orjson

from kvagent.flow import Ask, made
from kvagent.stores import Store

logger = logging.getLogger("kvagent")

Summarize = Callable[[dict[str, Any]], Any]
"""Takes a chat request, returns a ``SummaryReply`` or a text, and may raise whatever it likes."""

# A summarizer that never succeeds is asked for one range in so many powers of two.
_STRIKES = 6

Writing = Generator[Ask, Any, str | None]
"""Asks for what it needs, and returns the narrative; None where none could be had."""


class Summaries:
    """The narratives of one engine's conversations."""

    def __init__(
        self,
        store: Store,
        summarize: Summarize | None,
        told: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        """``told`` gets the counts of each answer, as the server sent them."""
        self.summarize = summarize
        self.told = told
        self._store = store
        self._running: dict[tuple[str, bytes], Future[str | None]] = {}
        self._strikes = 0
        """Narratives in a row that could not be had, or did not hold."""
        self._passed = 0
        """Ranges that were not asked for since."""
        self._lock = Lock()

    def willing(self) -> bool:
        """Whether to ask for a narrative: after each in a row that failed, half as often."""
        if self.summarize is None:
            return False
        with self._lock:
            if self._passed < 2**self._strikes - 1:
                self._passed += 1
                return False
            self._passed = 0
            return True

    def found(self, namespace: str, key: bytes) -> tuple[bool, str | None]:
        """Whether a narrative up to the entry ``key`` was asked for, and what came of it."""
        kept = self._store.get(namespace, b"narrative:" + key)
        return (True, orjson.loads(kept[0])) if kept else (False, None)

    def keep(self, namespace: str, key: bytes, narrative: str | None) -> None:
        """What came of asking for a narrative up to the entry ``key``."""
        self._strikes = 0 if narrative is not None else min(self._strikes + 1, _STRIKES)
        self._store.add(namespace, b"narrative:" + key, orjson.dumps(narrative))

    def running(self, namespace: str, key: bytes) -> Future[str | None] | None:
        """The narrative that is being written in the background, if it is."""
        return self._running.get((namespace, key))

    def start(self, namespace: str, key: bytes, writing: Writing) -> None:
        """Have a narrative written in the background, unless it was asked for before."""
        name = namespace, key
        future: Future[str | None] = Future()
        with self._lock:
            if name in self._running or self.found(*name)[0]:
                return
            self._running[name] = future

        def run() -> None:
            narrative: str | None = None
            try:
                narrative = made(writing)
                self.keep(namespace, key, narrative)
            except Exception:
                logger.exception("kvagent failed to write a narrative in the background")
            finally:
                self._running.pop(name, None)
                future.set_result(narrative)

        try:
            Thread(
                target=copy_context().run, args=(run,), name="kvagent-summary", daemon=True
            ).start()
        except RuntimeError:
            self._running.pop(name, None)
            future.set_result(None)
            logger.warning("kvagent cannot write in the background: no thread starts")
