"""Who answers the demo's agent where no server is needed?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from openai import OpenAI


class FakeClient:
    """A client that streams "Reply N." and keeps the bodies that it was given."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.cached_tokens: int | None = 10
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    @property
    def client(self) -> OpenAI:
        return cast("OpenAI", self)

    def _create(self, **body: Any) -> Iterator[Any]:
        extra = body.pop("extra_body")  # the SDK merges it in
        self.bodies.append(copy.deepcopy({**body, **extra}))
        number = len(self.bodies)
        for text in ("Reply", f" {number}."):
            choice = SimpleNamespace(delta=SimpleNamespace(content=text), finish_reason=None)
            yield SimpleNamespace(choices=[choice], usage=None)
        usage = SimpleNamespace(
            prompt_tokens=100 * number,
            completion_tokens=5,
            prompt_tokens_details=SimpleNamespace(cached_tokens=self.cached_tokens),
        )
        fields = {"id": "x", "object": "chat.completion.chunk", "choices": []}
        yield SimpleNamespace(choices=[], usage=usage, model_dump=lambda **_: fields)


@pytest.fixture
def fake() -> FakeClient:
    return FakeClient()
