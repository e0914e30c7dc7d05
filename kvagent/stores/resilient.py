"""What if the store fails? Then kvagent goes on in memory, and says so once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from kvagent.stores.memory import MemoryStore
from kvagent.stores.store import Store, StoreError, check

_logger = logging.getLogger("kvagent.stores")
_FIRST_PAUSE = 30.0  # seconds
_LONGEST_PAUSE = 3600.0
_FOR_EVER = float("inf")


class Resilient:
    """A store whose `get`, `add` and `batch` never fail, whatever the store behind it does.

    What the store does not take goes to `fallback` (a MemoryStore of its own if not given), and
    `get` asks both. A store that has failed is left alone for 30 seconds, then for twice as long
    each time, up to an hour; reading and writing apart, so that a full disk can still be read from.
    The first failure is logged as a warning and given to `warn`, further ones are logged at DEBUG.
    The warning holds nothing of what was stored.

    The one exception that leaves is ValueError for other than bytes: a mistake of the caller.
    """

    def __init__(
        self,
        store: Store,
        fallback: Store | None = None,
        *,
        warn: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._fallback = MemoryStore() if fallback is None else fallback
        self._warn = warn
        self._reading = _Patience(clock)
        self._writing = _Patience(clock)
        self._fallback_used = False
        # Taken once and never given back: exactly one thread can be the first.
        self._first_failure = threading.Lock()
        self.durable = bool(store.durable)
        self.problem: str | None = None
        """What the warning said; None as long as the store has not failed."""

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        """Keep `values` under the key, if need be in the fallback. ValueError: other than bytes."""
        self.batch(namespace, [(key, value) for value in values])

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add many (key, value) pairs, if need be to the fallback. ValueError: other than bytes."""
        items = list(items)
        check(namespace, items)
        if not items:
            return
        if self._writing.tries():
            try:
                self._store.batch(namespace, items)
                self._writing.succeeded()
                return
            except Exception as error:  # noqa: BLE001 - logged by _failed
                self._writing.failed()
                self._failed(error, self._store)
        self._fallback_used = True
        try:
            self._fallback.batch(namespace, items)
        except Exception as error:  # noqa: BLE001 - logged by _failed
            self._failed(error, self._fallback)

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        """Return the values in the store, oldest first, then those only in the fallback."""
        found: tuple[bytes, ...] = ()
        if self._reading.tries():
            try:
                found = tuple(self._store.get(namespace, key))
                self._reading.succeeded()
            except Exception as error:  # noqa: BLE001 - logged by _failed
                self._reading.failed()
                self._failed(error, self._store)
        if not self._fallback_used:
            return found
        try:
            kept = self._fallback.get(namespace, key)
        except Exception as error:  # noqa: BLE001 - logged by _failed
            self._failed(error, self._fallback)
            return found
        return tuple(dict.fromkeys(found + kept)) if kept else found

    def close(self) -> None:
        """Close the store, which is not asked again, and the fallback."""
        self._reading.give_up()
        self._writing.give_up()
        for store in (self._store, self._fallback):
            try:
                store.close()
            except Exception as error:  # noqa: BLE001 - logged by _failed
                self._failed(error, store)

    def _failed(self, error: Exception, store: Store) -> None:
        """Say what happened: the first time to the user, later only to whoever debugs."""
        # The text of an unknown error may quote a key or a value.
        known = isinstance(error, (StoreError, OSError))
        problem = str(error) if known else f"a {type(store).__name__} raised {type(error).__name__}"
        if not self._first_failure.acquire(blocking=False):
            _logger.debug("the store failed again: %s", problem, exc_info=error)
            return
        self.problem = problem
        _logger.warning("kvagent goes on in memory: %s", problem)
        _logger.debug("the store's failure", exc_info=error)
        if self._warn is not None:
            try:
                self._warn(problem)
            except Exception:
                _logger.exception("the callback that is told of a failing store has failed itself")


class _Patience:
    """How long a store that has failed is left alone.

    One thread tries again; the others go on in memory until it is known what came of it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pause = _FIRST_PAUSE
        self._until: float | None = None  # None: the store works, as far as is known

    def tries(self) -> bool:
        """Return whether it is time to ask the store."""
        until = self._until  # which another thread may set meanwhile
        if until is None:
            return True
        now = self._clock()
        if now < until:
            return False
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._until = now + self._pause
        return True

    def succeeded(self) -> None:
        """Take note that the store works (again)."""
        if self._until is not None and self._until != _FOR_EVER:
            self._until = None
            self._pause = _FIRST_PAUSE

    def failed(self) -> None:
        """Begin the first pause. Threads that fail at the same time do not make it longer."""
        if self._until is None:
            self._until = self._clock() + self._pause

    def give_up(self) -> None:
        """Never ask the store again."""
        self._until = _FOR_EVER
