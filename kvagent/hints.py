"""What can a request tell its server, so that the server keeps this conversation's cache?

Fields that change no prompt: a slot of its own, a salt for each tenant. They are added behind the
stages, to requests that do not set them already, and only where the policy wants them and the
server is known to understand them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

import orjson

from kvagent.backends import Server, Wish, hint_fields
from kvagent.fingerprint import digest
from kvagent.policy import Hints

# A conversation that was not heard of for so many turns a slot has ended.
_FORGOTTEN_AFTER = 8
# What every HTTP client sends and every router reads: names of conversations may be any text.
_HEADER_VALUE = re.compile(r"[!-~]{1,200}")


class Hinter:
    """Gives each request its hints; safe to use from several threads."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._pins = Pins()

    def fields(
        self,
        server: Server | None,
        conversation: str,
        role: str,
        namespace: str,
        body: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The fields to add to ``body``; none of those that it has."""
        hints = self._hints
        if server is None or not (hints.id_slot or hints.cache_salt or hints.cache_prompt):
            return {}
        slot = None
        if hints.id_slot is not None and server.slots is not None and server.slots > 1:
            key = conversation if hints.id_slot == "conversation" else role
            slot = self._pins.slot(f"{namespace}\0{key}", server.slots)
        salt = digest(namespace.encode()).hex() if hints.cache_salt and namespace else None
        wish = Wish(slot=slot, salt=salt, keep=hints.cache_prompt)
        return {k: v for k, v in hint_fields(server, wish).items() if k not in body}

    def headers(self, conversation: str) -> dict[str, str]:
        """Headers to add: for a router, that this conversation belongs to one replica."""
        name = self._hints.session_header
        if name is None:
            return {}
        if not _HEADER_VALUE.fullmatch(conversation):
            conversation = digest(conversation.encode(errors="surrogatepass")).hex()
        return {name: conversation}


class Pins:
    """Who has which slot, while there is one for everybody.

    With more conversations than slots nobody is pinned: the server's own choice, the slot that is
    longest unused or the most alike, is then better than any fixed one.
    """

    def __init__(self) -> None:
        self._slots: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._turns = 0
        self._lock = Lock()

    def slot(self, key: str, slots: int) -> int | None:
        """The slot for the next request of ``key``."""
        with self._lock:
            self._turns += 1
            had = self._slots.pop(key, None)
            while self._slots:
                oldest, (_, last) = next(iter(self._slots.items()))
                if self._turns - last <= _FORGOTTEN_AFTER * slots:
                    break
                del self._slots[oldest]
            taken = {slot for slot, _ in self._slots.values()}
            free = next((slot for slot in range(slots) if slot not in taken), None)
            slot = had[0] if had is not None and had[0] >= 0 else free
            # One without a slot is remembered as well: it is why the others are not pinned.
            self._slots[key] = (-1 if slot is None else slot, self._turns)
            return slot if len(self._slots) <= slots else None


def added(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """A JSON object's bytes with more fields at its end."""
    if not fields:
        return body
    end = body.rindex(b"}")
    comma = b"" if body[:end].rstrip().endswith(b"{") else b","
    return body[:end] + comma + orjson.dumps(fields)[1:-1] + body[end:]
