"""Which requests must an agent have sent, given the messages of its session?

One for each message of the model: everything in front of it was the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, overload

from kvagent.audit.transcript import Place, Reported, Request

HEAD_ROLES = frozenset({"system", "developer"})


class Prefix(Sequence[Mapping[str, Any]]):
    """The first messages of a list that may grow behind them.

    A session of n messages has n prompts: as copies they would take n² / 2 places.
    """

    __slots__ = ("_length", "whole")

    def __init__(self, whole: Sequence[Mapping[str, Any]], length: int | None = None) -> None:
        self.whole = whole
        """The list; prompts with the same one are prefixes of each other."""
        self._length = len(whole) if length is None else length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return islice(self.whole, self._length)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return [self.whole[at] for at in range(*index.indices(self._length))]
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self.whole[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(other) == self._length and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


def grown(before: Prefix, *messages: Mapping[str, Any]) -> Prefix:
    """The messages with more behind them; the list is shared unless it went on otherwise."""
    whole = before.whole
    if not isinstance(whole, list) or len(whole) != len(before):
        whole = list(whole[: len(before)])
    whole.extend(messages)
    return Prefix(whole)


class Trail:
    """The prompts that went before, by conversation: does the next one go on from there?"""

    def __init__(self) -> None:
        self._last: dict[str | None, Prefix] = {}

    def parts(self, conversation: str | None, prompt: Prefix) -> Prefix | None:
        """The prompt before, if this one is not that with more behind it."""
        before = self._last.get(conversation)
        self._last[conversation] = prompt
        if before is None or (prompt.whole is before.whole and len(prompt) >= len(before)):
            return None
        return before


def unrolled(
    messages: Sequence[Mapping[str, Any]],
    place: Place,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    conversation: str | None = None,
    has_system: bool | None = None,
    has_tools: bool | None = None,
    pending: bool = False,
    reported: Mapping[int, Reported] | None = None,
    times: Mapping[int, float | None] | None = None,
) -> Iterator[Request]:
    """The requests of a session.

    Args:
        messages: in OpenAI's chat form.
        place: where the list stands.
        tools: those that every request carried.
        options: the other keys that every request carried.
        conversation: its id.
        has_system: whether the transcript has the system prompt; None: if there is one.
        has_tools: whether the transcript has the tools; None: if there are any.
        pending: a list that does not end with the model's message was sent as well.
        reported: the counts of a model's message, by its number.
        times: when the request was sent, by the number of the model's message.
    """
    head = next(
        (at for at, message in enumerate(messages) if message.get("role") not in HEAD_ROLES),
        len(messages),
    )
    complete = completeness(
        system=bool(head) if has_system is None else has_system,
        tools=bool(tools) if has_tools is None else has_tools,
    )
    shared: dict[str, Any] = {
        "place": place,
        "tools": tools,
        "options": options or {},
        "conversation": conversation,
        "complete": complete,
    }
    for at, message in enumerate(messages):
        # In front of the first question stands a greeting that no model wrote.
        if message.get("role") == "assistant" and at > head:
            yield Request(
                messages=Prefix(messages, at),
                replies=(message,),
                reported=(reported or {}).get(at, Reported()),
                time_s=(times or {}).get(at),
                unrolled=True,
                **shared,
            )
    if pending and messages and messages[-1].get("role") != "assistant":
        yield Request(messages=Prefix(messages), **shared)


def completeness(*, system: bool, tools: bool) -> frozenset[str]:
    """What of the head a transcript has, as ``Request.complete`` says it."""
    parts = (("system", system), ("tools", tools))
    return frozenset(part for part, there in parts if there)
