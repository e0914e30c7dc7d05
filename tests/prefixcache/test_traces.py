"""Do recorded workloads give the hit rates that were published for them?"""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from kvagent.prefixcache.traces import Reuse, Trace, Traced, TraceError, pooled, served

# Mooncake's paper (FAST'25), figure 9, "synthetic": millions of tokens, hit rate.
FIGURE_9 = (
    *((0.01, 0.0003), (0.1, 0.0117), (1, 0.1461), (2, 0.2345), (4, 0.3805), (5, 0.4352)),
    *((8, 0.5447), (10, 0.5886), (50, 0.6582), (100, 0.6582), (500, 0.6582)),
)


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> Trace:
    return Trace.read(shared / "data" / "mooncake_synthetic_trace.jsonl")


def test_a_trace_of_mooncake_is_read(mooncake: Trace) -> None:
    assert mooncake.block_size == 512
    assert len(mooncake.requests) == 3993
    assert mooncake.requests[3] == Traced(0.277, 32140, 92, list(range(198, 261)))


@pytest.mark.parametrize(("millions", "rate"), FIGURE_9)
def test_mooncakes_figure(mooncake: Trace, millions: float, rate: float) -> None:
    assert pooled(mooncake, int(millions * 1e6 / 512)).rate == pytest.approx(rate, abs=0.005)


def test_a_server_gets_more_of_a_small_cache_than_the_figure_says(mooncake: Trace) -> None:
    """vLLM gives up the end of a prompt before its head."""
    for millions in (1, 2, 4, 5, 8, 10):
        blocks = int(millions * 1e6 / 512)
        assert served(mooncake, blocks).hit_blocks > pooled(mooncake, blocks).hit_blocks
    assert served(mooncake) == pooled(mooncake)


WEKA = ("0069", "0107", "0158", "0232", "0247", "0366", "0545", "0603")


@pytest.mark.parametrize("number", WEKA)
def test_the_ideal_hit_of_a_coding_agent(shared: Path, number: str) -> None:
    index = (shared / "data" / "INDEX.md").read_text(encoding="utf-8")
    found = re.search(rf"trace_{number}\.json`.* ideal prefix hit ([\d.]+)", index)
    assert found
    trace = Trace.read(shared / "data" / "weka" / f"trace_{number}.json")
    assert trace.block_size == 64
    assert served(trace).rate == pytest.approx(float(found[1]), abs=0.001)


def test_sub_agents_of_a_trace_are_read_in_their_place(tmp_path: Path) -> None:
    def request(*hashes: int) -> dict[str, object]:
        return {"t": 1.5, "in": 64 * len(hashes), "out": 9, "hash_ids": hashes}

    path = tmp_path / "trace.json"
    nested = {"type": "subagent", "requests": [request(1, 5)]}
    document = {"block_size": 64, "requests": [request(1, 2), nested, request(1, 2, 3)]}
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    trace = Trace.read(path)
    assert [one.hashes for one in trace.requests] == [[1, 2], [1, 5], [1, 2, 3]]
    assert (served(trace).hit_blocks, served(trace).blocks) == (3, 7)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", '{"requests": [1]}', "hash_ids\n"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"trace\.jsonl is no trace of Mooncake or WEKA"):
        Trace.read(path)


def test_an_empty_trace_has_a_rate() -> None:
    assert served(Trace(64, [])).rate == 0


def test_a_prompt_longer_than_the_cache_gets_nothing_from_a_server() -> None:
    trace = Trace(64, [Traced(0, 256, 1, [1, 2, 3, 4])] * 2)
    assert served(trace, 3) == Reuse(0, 8)
    assert served(trace, 4) == Reuse(3, 8)  # the last token is computed
    assert pooled(trace, 4) == Reuse(4, 8)
