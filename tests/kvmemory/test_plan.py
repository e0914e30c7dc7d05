from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.kvmemory.command_lines import llamacpp_command, vllm_command
from kvagent.kvmemory.gpus import GIB, GPU, gpu
from kvagent.kvmemory.memory import Storage
from kvagent.kvmemory.models import model
from kvagent.kvmemory.plan import NO_END, UTILISATION, WORKSPACE, Means, Scenario, Server, means
from kvagent.kvmemory.vllm import takes_ranks
from tests.kvmemory.strategies import rule

LLAMA = Scenario(
    model("Llama-3-8B").geometry(), gpu("RTX-4090"), 8192, 4, Storage.of(), weights="bf16"
)
NAMES = ["Llama-3-8B", "Gemma-3-12B", "gpt-oss-20b", "Qwen3-30B-A3B", "DeepSeek-V2-Lite"]

scenarios = st.builds(
    Scenario,
    st.sampled_from(NAMES).map(lambda name: model(name).geometry()),
    st.sampled_from([8.0, 24.0, 80.0, 200.0]).map(lambda gib: GPU("g", gib)),
    st.integers(1, 100_000),
    st.integers(1, 40),
    st.builds(Storage.of, st.sampled_from(["f16", "f32"]), st.sampled_from([1, 2, 4])),
    st.sampled_from(["vLLM", "llama.cpp"]),
    st.sampled_from(["bf16", "int4"]),
)


def brought(now: Scenario, name: str, shared: int = 0) -> Means:
    (found,) = (one for one in means(now, shared) if one.name == name)
    return found


def with_it(now: Scenario, name: str, shared: int = 0) -> Scenario:
    found = brought(now, name, shared).scenario
    assert found is not None
    return found


def test_what_is_left_for_kv() -> None:
    usable = int(24 * GIB * UTILISATION["vLLM"])
    assert LLAMA.space_bytes == usable - LLAMA.weight_bytes - WORKSPACE["vLLM"]
    assert LLAMA.kv_bytes == 4 * GIB + 16 * 131_072  # and the block that is never used
    assert LLAMA.fits
    assert LLAMA.most_requests == 5
    assert not replace(LLAMA, requests=6).fits
    assert not replace(LLAMA, context=LLAMA.longest_context + 1).fits


def test_weights_that_leave_nothing() -> None:
    large = replace(LLAMA, geometry=model("Llama-3.3-70B").geometry())
    assert (large.space_bytes, large.most_requests, large.longest_context) == (0, 0, 0)
    assert not large.fits


def test_windows_alone_have_no_end() -> None:
    window = replace(
        LLAMA, geometry=model("Mistral-7B-v0.1").geometry(), server="llama.cpp", requests=1
    )
    assert window.longest_context == NO_END


def test_a_shared_head_is_kept_once() -> None:
    shared = with_it(LLAMA, "prefix caching", 4100)
    assert shared.shared_tokens == 4096
    assert LLAMA.kv_bytes - shared.kv_bytes == 3 * 4096 * 131_072
    assert brought(LLAMA, "prefix caching").scenario is None


def test_a_shared_head_is_not_kept_once_in_windows() -> None:
    gemma = replace(LLAMA, geometry=model("Gemma-3-4B").geometry())
    saved = gemma.kv_bytes - with_it(gemma, "prefix caching", 4096).kv_bytes
    assert saved == 3 * 4096 * 5 * 4 * 512 * 2  # the five layers that see everything


def test_slots_share_nothing() -> None:
    slots = replace(LLAMA, server="llama.cpp")
    assert brought(slots, "prefix caching", 4096).scenario is None
    assert with_it(slots, "KV quantisation").storage.types.name == "q8_0"


def test_a_shared_head_is_prefilled_once() -> None:
    warm = replace(LLAMA, shared=4096)
    assert warm.prefill_seconds is not None
    assert warm.warm_prefill_seconds is not None
    assert warm.warm_prefill_seconds < warm.prefill_seconds == LLAMA.prefill_seconds
    # Of a prompt that is all shared, the last token is computed all the same.
    assert replace(LLAMA, shared=8192).shared_tokens == 8176
    assert replace(LLAMA, shared=9000, server="llama.cpp").shared_tokens == 8191


def test_quantisation_halves_once() -> None:
    used = with_it(LLAMA, "KV quantisation")
    assert used.kv_bytes * 2 == LLAMA.kv_bytes
    again = brought(used, "KV quantisation")
    assert again.scenario is None
    assert "already" in again.what


def test_as_few_gpus_as_it_takes() -> None:
    large = replace(LLAMA, geometry=model("Llama-3.3-70B").geometry())
    used = with_it(large, "tensor parallel")
    assert used.fits
    assert not replace(used, storage=replace(used.storage, tp=used.storage.tp // 2)).fits
    assert with_it(LLAMA, "tensor parallel").storage.tp == 2


@pytest.mark.parametrize(
    ("name", "counts"),
    [("Llama-3-8B", [2, 4, 8, 16, 32]), ("Qwen2.5-7B", [2, 4, 28]), ("Falcon-7B", [])],
)
def test_vllm_divides_heads_evenly(name: str, counts: list[int]) -> None:
    geometry = model(name).geometry()
    assert [count for count in range(2, 65) if takes_ranks(geometry, count)] == counts
    never = replace(LLAMA, geometry=geometry, gpu=GPU("g", 1.0))
    used = brought(never, "tensor parallel").scenario
    assert (used.storage.tp if used else None) == (counts[-1] if counts else None)
    assert with_it(replace(never, server="llama.cpp"), "tensor parallel").storage.tp == 64


def test_a_shorter_context_makes_it_fit() -> None:
    much = replace(LLAMA, requests=20)
    assert not much.fits
    assert with_it(much, "shorter context").fits
    assert with_it(LLAMA, "shorter context").context == 4096


def test_offload_says_how_much_and_how() -> None:
    idle = brought(LLAMA, "CPU offload")
    assert (idle.vllm, idle.llamacpp) == ("--kv-offloading-size 4", "--cache-ram 4096")
    large = brought(replace(LLAMA, geometry=model("Llama-3.3-70B").geometry()), "CPU offload")
    assert large.vllm is not None
    assert large.vllm.startswith("--cpu-offload-gb ")
    assert large.llamacpp == "--n-gpu-layers 12"


def test_a_window_where_the_model_has_one() -> None:
    assert brought(LLAMA, "sliding window").what == "the model has none"
    gemma = replace(LLAMA, geometry=model("Gemma-3-27B").geometry(), context=32_768)
    assert "1,024 tokens" in brought(gemma, "sliding window").what
    # A small GPU has small steps already.
    assert brought(gemma, "sliding window").scenario is None
    large = replace(gemma, gpu=gpu("H100"))
    assert with_it(large, "sliding window").kv_bytes == gemma.kv_bytes < large.kv_bytes


@rule
@given(scenarios, st.integers(0, 50_000))
def test_no_means_makes_it_worse(now: Scenario, shared: int) -> None:
    for one in means(now, shared):
        used = one.scenario
        if used is not None and (one.name, now.server) != ("tensor parallel", "llama.cpp"):
            assert used.kv_bytes <= now.kv_bytes
            assert used.space_bytes >= now.space_bytes


@rule
@given(scenarios)
def test_the_most_and_the_longest_are_where_it_ends(now: Scenario) -> None:
    assert now.fits == (now.most_requests >= now.requests)
    if 0 < now.longest_context < NO_END:
        assert replace(now, context=now.longest_context).fits
        assert not replace(now, context=now.longest_context + 256).fits


@pytest.mark.parametrize(
    ("kv_dtype", "of_vllm", "of_llamacpp"),
    [
        ("auto", None, None),
        ("bf16", None, "bf16"),
        ("fp8", "fp8", "q8_0"),
        ("int4_per_token_head", "int4_per_token_head", "q4_0"),
        ("q8_0", "fp8", "q8_0"),
        ("q4_0", "fp8", "q4_0"),
    ],
)
def test_each_server_gets_its_own_data_type(
    kv_dtype: str, of_vllm: str | None, of_llamacpp: str | None
) -> None:
    now = replace(LLAMA, storage=Storage.of(kv_dtype))
    vllm, llamacpp = vllm_command(now, "org/model"), llamacpp_command(now, "model.gguf")
    assert _after(vllm, "--kv-cache-dtype") == of_vllm
    assert _after(llamacpp, "--cache-type-k") == of_llamacpp
    assert _after(llamacpp, "--cache-type-v") == of_llamacpp
    # llama.cpp quantises values only with flash attention.
    assert (_after(llamacpp, "--flash-attn") == "on") == (of_llamacpp is not None)


def test_command_lines() -> None:
    now = replace(LLAMA, context=5000, storage=Storage.of("auto", tp=2))
    assert vllm_command(now, "org/model") == [
        *("vllm", "serve", "org/model", "--max-model-len", "5000", "--max-num-seqs", "4"),
        *("--tensor-parallel-size", "2", "--enable-prompt-tokens-details"),
    ]
    assert llamacpp_command(now, "m.gguf") == [
        *("llama-server", "--model", "m.gguf", "--ctx-size", "20480", "--parallel", "4"),
        *("--n-gpu-layers", "999", "--split-mode", "layer", "--jinja", "--metrics"),
    ]


@pytest.mark.parametrize("server", ["vLLM", "llama.cpp"])
def test_gpus_of_llamacpp_have_a_turn_each(server: Server) -> None:
    one = replace(LLAMA, server=server)
    two = replace(one, storage=Storage.of(tp=2))
    assert one.step_seconds is not None
    assert two.step_seconds is not None
    assert two.step_seconds == pytest.approx(
        one.step_seconds / (2 if server == "vLLM" else 1), rel=1e-6
    )


def _after(command: list[str], flag: str) -> str | None:
    return command[command.index(flag) + 1] if flag in command else None
