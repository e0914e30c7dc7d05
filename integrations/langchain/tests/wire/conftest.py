"""Which ChatOpenAI do the tests of a module share?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .sent import Sent


@pytest.fixture(scope="module")
def sent() -> Iterator[Sent]:
    sent = Sent()
    yield sent
    sent.client.close()
