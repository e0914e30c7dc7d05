"""Are real transcripts read to the last count?

The figures are those that were taken from the files by hand, apart from any reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.formats import read, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.fields import mapping, objects
from kvagent.audit.formats.unroll import Prefix
from kvagent.audit.source import opened
from kvagent.audit.transcript import Hashed, Item, Request, Unreadable


@dataclass(frozen=True)
class Figures:
    """What a file holds."""

    file: str
    format: str
    requests: int
    conversations: int = 1
    usage: tuple[int, int, int] | None = None
    """Prompt tokens, cached ones of them, and generated ones, as the makers counted them."""
    results: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    """Results of tools: how many, and of their characters the middle, the 90th of 100, most, sum."""
    system: int = 0
    """Characters of system prompts, once a conversation."""
    tools: int = 0
    complete: frozenset[str] = field(default=frozenset())
    unreadable: int = 0


BOTH = frozenset({"system", "tools"})
SYSTEM = frozenset({"system"})
LITELLM = "openhands_litellm_sonnet4/litellm_proxy__anthropic__claude-sonnet-4-20250514-17570150"

FILES = [
    Figures(
        "claudecode_3fe1b6bc.jsonl",
        "claude_code",
        67,
        # The last count of output is right; the first one is a placeholder.
        usage=(15377 + 1707033 + 5157884, 5157884, 34781),
        results=(76, 740, 9373, 34785, 239222),
    ),
    Figures(
        "claudecode_196820da.jsonl",
        "claude_code",
        47,
        usage=(6711 + 1473882 + 2560506, 2560506, 65263),
        results=(65, 288, 6416, 31980, 142168),
    ),
    Figures(
        "claudecode_9eda1058.jsonl",
        "claude_code",
        5,
        usage=(47 + 147267 + 22912, 22912, 4509),
        results=(3, 18004, 25982, 25982, 44211),
    ),
    Figures("claudeweb_sample_session.json", "claude_web", 15, results=(12, 61, 111, 211, 811)),
    Figures(
        "codex_rollout_019e1625.jsonl",
        "codex",
        66,
        usage=(6055836, 4929536, 9118),
        results=(102, 113, 8505, 40157, 339998),
        system=21335,  # what it has as system prompt; the developer's messages come behind it
        complete=SYSTEM,
    ),
    Figures(
        "pi_before-compaction.jsonl",
        "pi",
        484,
        usage=(3689 + 54693675 + 1685320, 54693675, 187895),
        results=(448, 199, 3600, 51266, 864409),
    ),
    Figures(
        "openhands_events_multiswe.jsonl",
        "openhands",
        82,
        conversations=2,
        usage=(1348184, 0, 10783),
        # Of 85 observations two are not told the model, and two are errors without a call.
        results=(81, 232, 1733, 20425, 81143 - 2 * 23 - 2 * 102),
        system=2 * 5602,
        tools=4,
        complete=BOTH,
    ),
    Figures(
        f"{LITELLM}25.972.json",
        "litellm",
        1,
        usage=(4812, 0, 146),
        system=10133,
        tools=3,
        complete=BOTH,
    ),
    Figures(
        f"{LITELLM}29.090.json",
        "litellm",
        1,
        usage=(5002, 0, 95),
        results=(1, 112, 112, 112, 112),
        system=10133,
        tools=3,
        complete=BOTH,
    ),
    Figures(
        f"{LITELLM}33.222.json",
        "litellm",
        1,
        usage=(6123, 0, 120),
        results=(2, 1958, 1958, 1958, 2070),
        system=10133,
        tools=3,
        complete=BOTH,
    ),
    Figures(
        f"{LITELLM}36.544.json",
        "litellm",
        1,
        usage=(6277, 0, 131),
        results=(3, 112, 1958, 1958, 2161),
        system=10133,
        tools=3,
        complete=BOTH,
    ),
    Figures(
        f"{LITELLM}40.416.json",
        "litellm",
        1,
        usage=(6485, 0, 113),
        results=(4, 162, 1958, 1958, 2323),
        system=10133,
        tools=3,
        complete=BOTH,
    ),
    Figures(
        f"{LITELLM}46.707.json",
        "litellm",
        1,
        usage=(6729, 0, 199),
        results=(5, 162, 1958, 1958, 2644),
        system=10133,
        tools=3,
        complete=BOTH,
    ),
    Figures(
        "inspect_browser.json",
        "inspect",
        5,
        usage=(15235, 9088, 281),
        results=(4, 4002, 6763, 6763, 16313),
        tools=8,
        complete=BOTH,
    ),
    Figures(
        "inspect_metr_small_epoch5.json",
        "inspect",
        14,
        usage=(113 + 4171 + 46973, 46973, 2002),
        results=(13, 166, 841, 3017, 5705),
        system=528,
        tools=4,
        complete=BOTH,
    ),
    Figures(
        "tau_airline_12.json",
        "tau_bench",
        297,
        conversations=12,
        results=(176, 626, 1048, 8117, 107459),
        system=73860,
        complete=SYSTEM,
    ),
    Figures(
        "sweagent_marshmallow_function_calling.traj",
        "swe_agent",
        11,
        results=(11, 352, 4431, 9074, 19702),
        system=1658,
        complete=SYSTEM,
    ),
    Figures("sweagent_pydicom-1458.traj", "swe_agent", 12, system=4877, complete=SYSTEM),
    Figures("miniswe_github_issue.traj.json", "openai_chat", 10, system=657, complete=SYSTEM),
    Figures(
        "toolbench_G3_13_openai_functions.json",
        "toolbench",
        5,
        results=(4, 85, 86, 86, 315),
        system=1663,
        tools=7,
        complete=BOTH,
    ),
    Figures(
        "toolbench_G1_57_openai_functions.json",
        "toolbench",
        5,
        results=(3, 436, 1027, 1027, 1631),
        system=1515,
        tools=11,
        complete=BOTH,
    ),
    Figures(
        "langfuse_langgraph-python-2025-08-22.trace.json",
        "langfuse",
        2,
        usage=(168, 0, 66),
        results=(1, 75, 75, 75, 75),
        tools=1,
        complete=frozenset({"tools"}),
    ),
    Figures(
        "langfuse_pydantic-ai-tools-2025-12-04.trace.json",
        "langfuse",
        4,
        usage=(1315, 0, 209),
        results=(3, 92, 97, 97, 88 + 92 + 97),
        system=220 + 70,  # of two agents
        tools=5,
        complete=BOTH,
    ),
    Figures(
        "langfuse_claude-agent-2025-12-22.trace.json",
        "langfuse",
        1,
        usage=(19, 0, 29),
        unreadable=3,  # what it has as their input is {"content": "role"}
    ),
    Figures(
        "langfuse_beeai-2025-08-01.trace.json",
        "langfuse",
        3,
        usage=(5542, 0, 0),
        system=4822,
        complete=SYSTEM,
    ),
    Figures(
        "langfuse_openai-agents-2025-09-30.trace.json",
        "langfuse",
        2,
        usage=(140, 0, 44),
        results=(1, 30, 30, 30, 30),
        system=24,
        tools=1,
        complete=BOTH,
    ),
    Figures(
        "cassette_langchain_agent_openai_chat.yaml",
        "cassette",
        8,  # four more calls went to a search engine
        results=(1, 2591, 2591, 2591, 2591),
        system=27,
        tools=1,
        complete=BOTH,
    ),
    Figures(
        "cassette_openai_responses_compact_stream.yaml",
        "cassette",
        4,
        usage=(1935, 0, 2062),
        complete=BOTH,
    ),
    Figures(
        "cassette_openai_responses_prompt_cache.yaml",
        "cassette",
        2,
        usage=(8040, 4012, 10),
        complete=BOTH,
    ),
    Figures(
        "cassette_anthropic_cache_real_api.yaml",
        "cassette",
        2,
        usage=(418 + 2222 + 6, 2222, 439),
        system=28,
        complete=BOTH,
    ),
]

REUSE = {
    "claudecode_3fe1b6bc.jsonl": 0.7497,
    "claudecode_196820da.jsonl": 0.6336,
    "codex_rollout_019e1625.jsonl": 0.8140,
    "pi_before-compaction.jsonl": 0.9700,
    "openhands_events_multiswe.jsonl": 0.0,
    "inspect_browser.json": 0.5965,
    "inspect_metr_small_epoch5.json": 0.9164,
    "cassette_anthropic_cache_real_api.yaml": 0.8398,
    "cassette_openai_responses_prompt_cache.yaml": 0.4990,
}


def text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(text(part) for part in content)
    return content if isinstance(content, str) else str(mapping(content).get("text") or "")


def all_messages(requests: Sequence[Request]) -> list[Any]:
    """Each message once: those of each list that grew, else those of the longest prompt."""
    found: dict[int, Any] = {}
    longest: dict[str | None, Request] = {}
    for request in requests:
        if isinstance(request.messages, Prefix):
            found.update((id(each), each) for each in request.messages.whole)
            continue
        known = longest.get(request.conversation)
        if known is None or len(request.messages) >= len(known.messages):
            longest[request.conversation] = request
    for request in longest.values():
        found.update((id(each), each) for each in request.messages)
    return list(found.values())


def spread(sizes: list[int]) -> tuple[int, int, int, int, int]:
    sizes = sorted(sizes)
    if not sizes:
        return (0, 0, 0, 0, 0)
    middle, ninetieth = (sizes[min(int(len(sizes) * part), len(sizes) - 1)] for part in (0.5, 0.9))
    return len(sizes), middle, ninetieth, sizes[-1], sum(sizes)


def opens(path: Path) -> list[Item]:
    if path.suffix == ".yaml":
        pytest.importorskip("yaml")
    return list(read(path))


@pytest.mark.parametrize("known", FILES, ids=lambda known: known.file)
def test_figures(shared: Path, known: Figures) -> None:
    path = shared / "data" / known.file
    found = opens(path)
    with opened(path) as source:
        assert recognise(Contents.of(source)).name == known.format
    requests = [each for each in found if isinstance(each, Request)]
    assert len([each for each in found if isinstance(each, Unreadable)]) == known.unreadable
    assert len(requests) == len(found) - known.unreadable == known.requests
    assert len({each.conversation for each in requests}) == known.conversations

    counted = [each.reported for each in requests if each.reported.prompt_tokens is not None]
    if known.usage is None:
        assert not counted
    else:
        prompt = sum(each.prompt_tokens or 0 for each in counted)
        cached = sum(each.cached_tokens or 0 for each in counted)
        assert (prompt, cached, sum(each.completion_tokens or 0 for each in counted)) == known.usage
        if known.file in REUSE:
            assert round(cached / prompt, 4) == REUSE[known.file]

    messages = all_messages(requests)
    results = [len(text(each["content"])) for each in messages if each["role"] == "tool"]
    assert spread(results) == known.results
    heads = {
        (each.conversation, text(each.messages[0]["content"]))
        for each in requests
        if each.messages[0]["role"] == "system"
    }
    assert sum(len(head) for _, head in heads) == known.system
    assert max(len(each.tools) for each in requests) == known.tools
    assert {each.complete for each in requests} == {known.complete}
    assert known.format == "pi" or {each.departs for each in requests} == {None}


def test_pi_counts_471_calls(shared: Path) -> None:
    found = [
        each
        for each in opens(shared / "data/pi_before-compaction.jsonl")
        if isinstance(each, Request)
    ]
    assert len([each for each in found if each.reported.prompt_tokens is not None]) == 471
    errors = [each.error for each in found if each.error is not None]
    assert len(errors) == 19
    assert len([each for each in errors if "tool_use" in each]) == 1


def test_pi_compacted_twice(shared: Path) -> None:
    found = [
        each
        for each in opens(shared / "data/pi_before-compaction.jsonl")
        if isinstance(each, Request)
    ]
    parted = [
        after for before, after in pairwise(found) if before.messages[0] is not after.messages[0]
    ]
    assert len(parted) == 2
    assert [each for each in found if each.departs] == parted
    assert {each.departs for each in parted} == {"compaction"}
    assert all("<summary>" in text(each.messages[0]["content"]) for each in parted)


def test_toolbench_has_a_prompt_that_did_not_only_grow(shared: Path) -> None:
    found = opens(shared / "data/toolbench_G3_13_openai_functions.json")
    prompts = [list(each.messages) for each in found if isinstance(each, Request)]
    assert [len(each) for each in prompts] == [2, 5, 7, 9, 11]
    grew = [b[: len(a)] == a for a, b in pairwise(prompts)]
    assert not all(grew)


def test_the_head_of_codex(shared: Path) -> None:
    """Its system prompt, and what the developer says behind it."""
    path = shared / "data/codex_rollout_019e1625.jsonl"
    first = next(each for each in opens(path) if isinstance(each, Request))
    assert [each["role"] for each in first.messages] == ["system", "developer", "user", "user"]
    assert sum(len(text(each["content"])) for each in first.messages[:2]) == 45702


def test_every_message_of_tau_bench(shared: Path) -> None:
    found = [
        each for each in opens(shared / "data/tau_airline_12.json") if isinstance(each, Request)
    ]
    assert len(all_messages(found)) == 618


def test_mini_swe_agents_list(shared: Path) -> None:
    found = [
        each
        for each in opens(shared / "data/miniswe_github_issue.traj.json")
        if isinstance(each, Request)
    ]
    assert len(all_messages(found)) == 22


WEKA = {
    "0107": (4, 0.7487),
    "0232": (6, 0.8205),
    "0069": (21, 0.9457),
    "0247": (29, 0.9325),
    "0158": (55, 0.9750),
    "0545": (70, 0.9675),
    "0603": (103, 0.9782),
    "0366": (125, 0.9863),
}


@pytest.mark.parametrize("number", WEKA)
def test_weka(shared: Path, number: str) -> None:
    """What of each prompt was a prefix of one before, in a cache without an end."""
    found = opens(shared / f"data/weka/trace_{number}.json")
    calls = [each for each in found if isinstance(each, Hashed)]
    seen: set[int] = set()
    hit = 0
    for call in calls:
        assert call.block_size == 64
        assert len(call.blocks) == call.prompt_tokens // 64
        for block in call.blocks:
            if block not in seen:
                break
            hit += 64
        seen.update(call.blocks)
    asked = sum(len(call.blocks) for call in calls) * 64
    assert (len(calls), round(hit / asked, 4)) == WEKA[number]


def test_mooncake(shared: Path) -> None:
    found = opens(shared / "data/mooncake_synthetic_trace.jsonl")
    calls = [each for each in found if isinstance(each, Hashed)]
    assert len(calls) == len(found) == 3993
    assert all(len(call.blocks) == -(-call.prompt_tokens // 512) for call in calls)


@pytest.mark.parametrize(
    "name", ["requests", "requests_clean", "requests_keyorder", "requests_long"]
)
def test_logs_of_requests(shared: Path, name: str) -> None:
    path = shared / f"cases/{name}.jsonl"
    requests = [each for each in opens(path) if isinstance(each, Request)]
    assert len(requests) == len(path.read_bytes().splitlines())
    assert {len(objects(list(each.tools))) for each in requests} == {5}
    assert not any(each.unrolled for each in requests)
