from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.backends import Fetch, Fetched, Server, learn, probe
from kvagent.backends.vllm import CACHING_OFF, NOT_REPORTED

Recorded = Callable[[str], dict[str, Any]]
Drive = Callable[[Mapping[str, Fetched], str | None], tuple[Server, list[str]]]

SMOL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def ok(body: object) -> Fetched:
    return Fetched(200, json.dumps(body).encode())


def models(*entries: dict[str, Any]) -> Fetched:
    return ok({"object": "list", "data": list(entries)})


@pytest.fixture
def vllm_answers(recorded: Recorded) -> dict[str, Fetched]:
    written = recorded("vllm_written")
    return {
        "api/models": ok(written["models"]),
        "root/version": ok(written["version"]),
        "root/metrics": Fetched(200, "\n".join(written["metrics"]).encode()),
    }


class TestLlamaCpp:
    @pytest.mark.parametrize(("props", "window"), [("props", 512), ("props_unified", 1024)])
    def test_real_server_in_two_gets(
        self, recorded: Recorded, drive: Drive, props: str, window: int
    ) -> None:
        """Two slots; the window is the slot's own as it stands, be the pool shared or not."""
        answers = {
            "api/models": ok(recorded("llamacpp_models")),
            "root/props": ok(recorded(f"llamacpp_{props}")),
        }
        server, asked = drive(answers, "any name will do")
        assert asked == ["api/models", "root/props"]
        assert server == Server(
            kind="llama.cpp",
            version="b0-unknown",
            model=SMOL,
            window=window,
            slots=2,
            reports_cached=True,
        )

    def test_where_only_the_list_of_models_is_open(self, recorded: Recorded, drive: Drive) -> None:
        answers = {
            "api/models": ok(recorded("llamacpp_models")),
            "root/props": Fetched(401, b'{"error":{"code":401,"message":"Invalid API Key"}}'),
        }
        server, _ = drive(answers, None)
        assert server == Server("llama.cpp", model=SMOL, window=512, reports_cached=True)

    def test_where_the_list_of_models_tells_nothing(self, recorded: Recorded, drive: Drive) -> None:
        server, asked = drive({"root/props": ok(recorded("llamacpp_props"))}, "smol")
        assert (server.kind, server.window, server.slots) == ("llama.cpp", 512, 2)
        assert asked == ["api/models", "root/props"]

    def test_a_router_is_asked_for_the_model_without_loading_it(
        self, recorded: Recorded, drive: Drive
    ) -> None:
        router = {
            "role": "router",
            "model_alias": "llama-server",
            "default_generation_settings": {"params": None, "n_ctx": 0},
            "build_info": "b7400-abc",
        }
        of_model = "root/props?model=org%2Fsmol%3AQ4&autoload=false"
        answers = {
            "api/models": models(
                {"id": "org/smol:Q4", "owned_by": "llamacpp"},
                {"id": "org/other", "owned_by": "llamacpp"},
            ),
            "root/props": ok(router),
            of_model: ok(recorded("llamacpp_props")),
        }
        server, asked = drive(answers, "org/smol:Q4")
        assert asked == ["api/models", "root/props", of_model]
        assert (server.model, server.window, server.slots) == ("org/smol:Q4", 512, 2)
        del answers[of_model]
        server, _ = drive(answers, "org/smol:Q4")
        assert (server.kind, server.window, server.slots) == ("llama.cpp", None, None)


class TestVllm:
    def test_three_gets(self, vllm_answers: dict[str, Fetched], drive: Drive) -> None:
        server, asked = drive(vllm_answers, "qwen")
        assert asked == ["api/models", "root/version", "root/metrics"]
        assert server == Server(
            kind="vllm", version="0.32.0", model="qwen", window=32768, block_size=16
        )

    def test_an_adapter_has_its_parents_window(
        self, vllm_answers: dict[str, Fetched], drive: Drive
    ) -> None:
        server, _ = drive(vllm_answers, "qwen-sql")
        assert (server.model, server.window) == ("qwen-sql", 32768)

    def test_a_model_that_is_not_listed_has_no_window(
        self, vllm_answers: dict[str, Fetched], drive: Drive
    ) -> None:
        server, _ = drive(vllm_answers, "elsewhere")
        assert (server.model, server.window) == ("elsewhere", None)

    def test_hits_aligned_more_coarsely_than_the_block(
        self, vllm_answers: dict[str, Fetched], drive: Drive
    ) -> None:
        metrics = vllm_answers["root/metrics"].body.replace(
            b'cache_hit_alignment_tokens="None"', b'cache_hit_alignment_tokens="528"'
        )
        server, _ = drive({**vllm_answers, "root/metrics": Fetched(200, metrics)}, "qwen")
        assert server.block_size == 528

    def test_caching_switched_off_is_said(
        self, vllm_answers: dict[str, Fetched], drive: Drive
    ) -> None:
        metrics = vllm_answers["root/metrics"].body.replace(
            b'enable_prefix_caching="True"', b'enable_prefix_caching="False"'
        )
        server, _ = drive({**vllm_answers, "root/metrics": Fetched(200, metrics)}, "qwen")
        assert server.advice == CACHING_OFF

    def test_without_metrics(self, vllm_answers: dict[str, Fetched], drive: Drive) -> None:
        del vllm_answers["root/metrics"]
        server, _ = drive(vllm_answers, "qwen")
        assert (server.kind, server.window, server.block_size) == ("vllm", 32768, None)

    def test_without_a_list_of_models(self, vllm_answers: dict[str, Fetched], drive: Drive) -> None:
        vllm_answers["api/models"] = Fetched(401, b'{"error":"Unauthorized"}')
        server, asked = drive(vllm_answers, "qwen")
        assert asked == ["api/models", "root/props", "root/version", "root/metrics"]
        assert (server.kind, server.version, server.block_size) == ("vllm", "0.32.0", 16)

    def test_another_server_with_a_version_is_not_vllm(self, drive: Drive) -> None:
        server, _ = drive({"root/version": ok({"version": "1.2"})}, "m")
        assert server == Server("openai", model="m")


class TestOpenAI:
    def test_one_get_and_no_more(self, drive: Drive) -> None:
        entries = [{"id": f"gpt-{n}", "object": "model", "owned_by": "system"} for n in (4, 5)]
        server, asked = drive({"api/models": models(*entries)}, "gpt-5")
        assert (server, asked) == (Server("openai", model="gpt-5"), ["api/models"])

    @pytest.mark.parametrize("key", ["max_model_len", "context_length", "context_window"])
    def test_the_window_that_a_compatible_server_lists(self, drive: Drive, key: str) -> None:
        listed = models({"id": "m", "owned_by": "someone", key: 4096}, {"id": "n"})
        server, _ = drive({"api/models": listed}, "m")
        assert server == Server("openai", model="m", window=4096)

    def test_no_answer_ends_it_at_once(self, drive: Drive) -> None:
        server, asked = drive({"api/models": Fetched(0, b"")}, "m")
        assert (server, asked) == (Server("openai", model="m"), ["api/models"])

    @pytest.mark.parametrize(
        "answer",
        [
            Fetched(200, b"<html>welcome</html>"),
            Fetched(200, b""),
            Fetched(200, b"[1, 2"),
            Fetched(200, b'{"data": {"id": "m"}}'),
            Fetched(200, b'{"data": [1, null, {"id": 7, "owned_by": ["vllm"]}]}'),
            Fetched(301, b""),
            Fetched(401, b'{"error":{"message":"Invalid API Key"}}'),
            Fetched(503, b'{"error":{"message":"Loading model","code":503}}'),
            Fetched(200, b"[" * 100_000),
        ],
    )
    def test_odd_answers_everywhere(self, drive: Drive, answer: Fetched) -> None:
        addresses = ("api/models", "root/props", "root/version", "root/metrics")
        server, _ = drive(dict.fromkeys(addresses, answer), "m")
        assert server == Server("openai", model="m")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = ("id", "aliases", "owned_by", "parent", "max_model_len", "meta", "n_ctx", "build_info")
PROPS = ("default_generation_settings", "total_slots", "build_info", "model_alias", "version")
ENTRY = st.dictionaries(st.sampled_from(KEYS), JSON | st.sampled_from(["vllm", "llamacpp"]))
BODY = st.one_of(
    JSON,
    st.dictionaries(st.sampled_from(PROPS), JSON),
    st.lists(ENTRY, max_size=3).map(lambda entries: {"data": entries}),
).map(lambda body: json.dumps(body).encode()) | st.binary(max_size=40)
ANSWER = st.builds(Fetched, st.sampled_from([0, 200, 204, 401, 404, 500]), BODY)


def answered(probing: Generator[Fetch, Fetched, Server], answers: list[Fetched]) -> Server:
    next(probing)
    try:
        for answer in answers:
            probing.send(answer)
    except StopIteration as stop:
        server: Server = stop.value
        return server
    raise AssertionError(f"{len(answers)} GETs were not enough")


@given(st.lists(ANSWER, min_size=4, max_size=4), st.none() | st.text(max_size=5))
def test_any_answers_end_in_a_server_after_few_gets(
    answers: list[Fetched], model: str | None
) -> None:
    server = answered(probe(model), answers)
    for number in (server.window, server.block_size, server.slots):
        assert number is None or number > 0


def test_closing_a_probe_early_is_harmless() -> None:
    generator = probe("m")
    next(generator)
    generator.close()


class TestLearn:
    @pytest.fixture
    def silent(self, recorded: Recorded) -> dict[str, Any]:
        """A reply of vLLM with usage and null details."""
        reply: dict[str, Any] = recorded("vllm_written")["chat"]
        return reply

    @pytest.fixture
    def telling(self, recorded: Recorded) -> dict[str, Any]:
        reply: dict[str, Any] = recorded("vllm_written")["chat_with_details"]
        return reply

    def test_a_count_proves_it(self, telling: dict[str, Any]) -> None:
        assert learn(Server("vllm"), telling) == Server("vllm", reports_cached=True)

    def test_a_reported_zero_proves_it(self) -> None:
        miss = {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}
        assert learn(Server("openai"), miss).reports_cached is True

    @pytest.mark.parametrize("version", [None, "0.11.0", "0.20.2rc1", "dev", ""])
    def test_a_null_of_an_older_vllm_may_be_a_miss(
        self, silent: dict[str, Any], version: str | None
    ) -> None:
        server = Server("vllm", version=version)
        assert learn(server, silent) is server
        assert learn(server, silent, hit_due=True) == Server(
            "vllm", version=version, reports_cached=False, advice=NOT_REPORTED
        )

    @pytest.mark.parametrize("version", ["0.27.0", "0.32.0", "1.0", "0.32.1.dev7+cpu"])
    def test_a_null_of_a_newer_vllm_says_that_it_is_off(
        self, silent: dict[str, Any], version: str
    ) -> None:
        learned = learn(Server("vllm", version=version), silent)
        assert (learned.reports_cached, learned.advice) == (False, NOT_REPORTED)

    def test_a_later_count_takes_it_back(
        self, silent: dict[str, Any], telling: dict[str, Any]
    ) -> None:
        off = learn(Server("vllm"), silent, hit_due=True)
        on = learn(off, telling)
        assert on == Server("vllm", reports_cached=True)
        assert learn(on, silent, hit_due=True) is on

    def test_a_reply_without_usage_says_nothing(self) -> None:
        server = Server("vllm", version="0.32.0")
        assert learn(server, {"choices": []}, hit_due=True) is server
        assert learn(server, {"usage": None}, hit_due=True) is server

    def test_other_advice_stays(self, silent: dict[str, Any], telling: dict[str, Any]) -> None:
        server = Server("vllm", version="0.32.0", advice=CACHING_OFF)
        assert learn(server, silent).advice == CACHING_OFF
        assert learn(server, telling).advice == CACHING_OFF

    def test_a_plain_server(self, silent: dict[str, Any]) -> None:
        server = Server("openai")
        assert learn(server, silent) is server
        learned = learn(server, silent, hit_due=True)
        assert learned.reports_cached is False
        assert learned.advice is not None
        assert "--enable-prompt-tokens-details" in learned.advice

    def test_llamacpp_always_reports(self, recorded: Recorded) -> None:
        server = Server("llama.cpp", reports_cached=True)
        assert learn(server, recorded("llamacpp_chat")) is server
        assert learn(server, {"usage": {"prompt_tokens": 9}}, hit_due=True) is server
