"""What did a real llama.cpp report, in numbers that a simulation can be held against without it?

What is cached depends on where sequences part, not on what their tokens are. So a recording has,
for each request, the earlier one that it shares most with, and lengths; the ids are made up again
when it is read. Made by ``python -m tests.prefixcache.replay``, which plays the scenarios of
``tests/prediction`` on a real server.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvagent.prefixcache.seen import common_prefix, tokens

if TYPE_CHECKING:
    from tests.prediction.llamacpp import Played, Setup
    from tests.prediction.llamacpp_scenarios import Scenario

MARKER = (1, 4093)
"""SmolLM2's ids of ``<|im_start|>user``."""

RECORDED = Path(__file__).with_name("recorded") / "llamacpp.json"


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request."""

    parent: int
    """The number of the earlier request, to this server, that shares most with this one."""
    common: int
    """How much that is, of its prompt and answer."""
    length: int
    generated: int
    reported: int | None
    """Cached tokens; None where the prompt was refused."""
    options: Mapping[str, Any]
    marks: Sequence[tuple[int, int]]
    """Behind what is common, where the n-th token of the user marker stands, and n."""
    ids: Sequence[int]
    """Prompt and answer, where more than their beginnings matters."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server's settings, and what it was asked, in order."""

    settings: Mapping[str, Any]
    requests: Sequence[Request]

    @property
    def setup(self) -> Setup:
        """Its settings, as they are simulated."""
        from tests import tiny_model
        from tests.prediction.llamacpp import Setup

        return Setup(**{**self.settings, "shape": tiny_model.Shape(**self.settings["shape"])})

    def sequences(self) -> Iterator[tuple[Request, list[int], list[int]]]:
        """Each request with its prompt and what was generated, in made-up ids.

        The user marker is -1, -2, ...; every other token that is not common is new.
        """
        before: list[list[int]] = []
        for number, request in enumerate(self.requests):
            ids = list(request.ids)
            if not ids:
                shared = before[request.parent][: request.common] if request.common else []
                new = range(request.common, request.length + request.generated)
                ids = [*shared, *(number << 20 | at for at in new)]
                for at, which in request.marks:
                    ids[at] = -1 - which
            before.append(ids)
            yield request, ids[: request.length], ids[request.length :]


def read() -> list[Server]:
    """All that was recorded."""
    names = [field.name for field in fields(Request)]
    return [
        Server(
            one["settings"],
            [Request(**dict(zip(names, row, strict=True))) for row in one["requests"]],
        )
        for one in json.loads(RECORDED.read_bytes())
    ]


def tree(played: Sequence[Played], marker: Sequence[int]) -> Iterator[Request]:
    """What was played, as a recording has it."""
    moves = any("n_cache_reuse" in one.options for one in played)
    small: dict[int, int] = {}
    before: list[Any] = []
    for one in played:
        sequence = tokens([*one.prompt, *one.generated])
        prompt = sequence[: len(one.prompt)]
        shared = [common_prefix(sequence, other) for other in before]
        parent = max(range(len(before)), key=shared.__getitem__, default=-1)
        common = shared[parent] if before else 0
        before.append(sequence)
        yield Request(
            parent,
            common,
            len(prompt),
            len(one.generated),
            one.reported,
            dict(one.options),
            [
                (at, marker.index(token))
                for at, token in enumerate(prompt)
                if at >= common and token in marker
            ],
            [small.setdefault(token, len(small)) for token in sequence] if moves else [],
        )


def record(file: Path, scenarios: Iterable[Scenario]) -> int:
    """Play the scenarios and write ``file``; how many requests that were."""
    from tests.prediction.llamacpp_scenarios import run

    played: list[tuple[Setup, list[Played]]] = []

    def keep(setup: Setup) -> Callable[[Played], None]:
        played.append((setup, []))
        return played[-1][1].append

    with tempfile.TemporaryDirectory() as folder:
        count = sum(1 for _ in run(scenarios, Path(folder), keep))
    servers = []
    for setup, some in played:
        settings = asdict(setup)
        del settings["template"], settings["user_marker"]
        marks = MARKER if setup.shape.architecture != "llama" and not setup.plain_text else ()
        requests = [list(astuple(request)) for request in tree(some, marks)]
        servers.append({"settings": settings, "requests": requests})
    file.parent.mkdir(exist_ok=True)
    lines = (json.dumps(server, separators=(",", ":")) for server in servers)
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    return count


def all_in_order() -> Iterator[Scenario]:
    """What is recorded: what is played one after the other and needs nothing from elsewhere."""
    from tests.prediction import llamacpp_scenarios as known

    yield from known.one_slot()
    yield from known.moving()
    yield from known.in_turn()
    yield from known.pinned()
    yield from known.corners()
    yield from known.templates()
    yield from known.rolling()
    # Not those that move tokens: for them, a recording needs all ids.
    yield from known.drawn(seed for seed in range(30) if seed % 5 != 4)


if __name__ == "__main__":
    print(f"{record(RECORDED, all_in_order())} requests recorded in {RECORDED}", file=sys.stderr)
