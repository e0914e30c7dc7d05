"""What does a turn ask of whoever does the sending, and what is it told?

A turn is one generator: it yields what is to be done and is sent what came of it. So one code
serves sync clients, async clients and proxies, each with a driver of a few lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvagent.chat import ChatReply

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A chat request to be sent: the turn itself, to the endpoint that the caller chose."""

    body: bytes
    changed: bool
    """Whether ``body`` differs from the bytes that came in."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to add."""
    withheld: frozenset[str] = frozenset()
    """Tools whose calls are kvagent's own: a reply that calls one does not reach the caller."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to a call, as far as it is there: a stream has only its status."""

    status: int
    error: bytes = b""
    """The body of an answer whose status is 400 or above."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A model call of kvagent's own: ``function`` makes it, and what it raises is its answer."""

    function: Callable[[Any], Any]
    """Its attribute ``acall``, where there is one, is the same for coroutines."""
    argument: Any

    def made(self) -> Any:
        try:
            return self.function(self.argument)
        except Exception as error:  # noqa: BLE001 - whoever asked decides what it means
            return error

    async def amade(self) -> Any:
        acall = getattr(self.function, "acall", None)
        try:
            if acall is not None:
                return await acall(self.argument)
            return await asyncio.to_thread(self.function, self.argument)
        except Exception as error:  # noqa: BLE001
            return error


Settle = Callable[[ChatReply, float | None], "Flow | None"]
"""Told the reply when it has been read, and the seconds to its first bytes (None: unknown).

Where it returns a flow, that reply was for kvagent: the flow's own is the caller's."""

Flow = Generator[Call | Ask, Any, Settle]
"""An ``Answer`` is sent in for each ``Call``, and what it returned for each ``Ask``."""


def drive(flow: Flow, send: Callable[[Call], tuple[Answer, T]]) -> tuple[T, Settle]:
    """Run a turn with a function that sends; returns its last response and what to tell later."""
    step = next(flow)
    response: T
    try:
        while True:
            if isinstance(step, Ask):
                told = step.made()
            else:
                told, response = send(step)
            try:
                step = flow.send(told)
            except StopIteration as stop:
                return response, stop.value
    finally:
        flow.close()


async def adrive(
    flow: Flow, send: Callable[[Call], Awaitable[tuple[Answer, T]]]
) -> tuple[T, Settle]:
    """``drive`` for a coroutine function that sends."""
    step = next(flow)
    response: T
    try:
        while True:
            if isinstance(step, Ask):
                told = await step.amade()
            else:
                told, response = await send(step)
            try:
                step = flow.send(told)
            except StopIteration as stop:
                return response, stop.value
    finally:
        flow.close()


def made(steps: Generator[Ask, Any, T]) -> T:
    """What a generator returns that asks for nothing but model calls; they are made here."""
    try:
        step = next(steps)
        while True:
            step = steps.send(step.made())
    except StopIteration as stop:
        value: T = stop.value
        return value
