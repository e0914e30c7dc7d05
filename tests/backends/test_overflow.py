from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.backends import Overflow, llamacpp, openai, overflow_of, vllm

Recorded = Callable[[str], dict[str, Any]]

CONTEXT = "This model's maximum context length is"
REDUCE = "Please reduce the length of the input prompt or the number of requested output tokens."


class Refusal(NamedTuple):
    """What a server says, and what is to be read from it."""

    message: str
    wording: str
    prompt: int | None = None
    at_least: bool = False
    window: int | None = None
    output: int | None = None

    @property
    def overflow(self) -> Overflow:
        return Overflow(self.prompt, self.at_least, self.window, self.wording, self.output)


REFUSALS = [
    # vLLM, newest first
    Refusal(
        f"{CONTEXT} 8192 tokens. However, your prompt contains at least 8193 input tokens, which "
        "exceeds this limit even without any output tokens. Please reduce the length of the input "
        "prompt. (parameter=input_tokens, value=8193)",
        "vllm.prompt_contains",
        prompt=8193,
        at_least=True,
        window=8192,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, your prompt contains 9000 input tokens, which exceeds "
        "this limit even without any output tokens. Please reduce the length of the input prompt. "
        "(parameter=input_tokens, value=9000)",
        "vllm.prompt_contains",
        prompt=9000,
        window=8192,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, your prompt contains 200000 characters (more than 81920 "
        "characters, which is the upper bound for 8192 input tokens). Please reduce the length of "
        "the input prompt. (parameter=input_text, value=200000)",
        "vllm.prompt_characters",
        prompt=8193,
        at_least=True,
        window=8192,
    ),
    Refusal(
        "The decoder prompt (length 4096) plus the number of requested output tokens (at least 1) "
        "is longer than the maximum model length of 4096. Make sure that `max_model_len` is no "
        "smaller than the number of text tokens (prompt + requested output tokens).",
        "vllm.model_length",
        prompt=4096,
        window=4096,
    ),
    Refusal(
        "The decoder prompt (length 12324) is longer than the maximum model length of 8192. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens.",
        "vllm.model_length",
        prompt=12324,
        window=8192,
    ),
    Refusal(
        "The encoder prompt (length 33) is longer than the maximum model length of 32.",
        "vllm.model_length",
        prompt=33,
        window=32,
    ),
    Refusal(
        "max_completion_tokens=9000 cannot be greater than max_model_len=8192. Please request "
        "fewer output tokens. (parameter=max_completion_tokens, value=9000)",
        "vllm.max_tokens_over_window",
        window=8192,
        output=9000,
    ),
    Refusal(
        "max_output_tokens=5000cannot be greater than max_total_tokens=max_total_tokens=4096. "
        "Please request fewer output tokens.",
        "vllm.max_tokens_over_window",
        window=4096,
        output=5000,
    ),
    Refusal(
        "Input length (9000) exceeds model's maximum context length (8192).",
        "vllm.input_length",
        prompt=9000,
        window=8192,
    ),
    Refusal(
        f"{CONTEXT} 131072 tokens. However, you requested 65536 output tokens and your prompt "
        f"contains at least 65537 input tokens, for a total of at least 131073 tokens. {REDUCE}",
        "vllm.prompt_contains",
        prompt=65537,
        at_least=True,
        window=131072,
        output=65536,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, you requested 64 output tokens and your prompt contains "
        f"10000 input tokens, for a total of 10064 tokens. {REDUCE}",
        "vllm.prompt_contains",
        prompt=10000,
        window=8192,
        output=64,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, you requested 64 output tokens and your prompt contains "
        "100000 characters (more than 81280 characters, which is the upper bound for 8128 input "
        f"tokens). {REDUCE}",
        "vllm.prompt_characters",
        prompt=8129,
        at_least=True,
        window=8192,
        output=64,
    ),
    Refusal(
        "You passed 8193 input tokens and requested 0 output tokens. However, the model's context "
        "length is only 8192 tokens, resulting in a maximum input length of 8192 tokens. Please "
        "reduce the length of the input prompt. (parameter=input_tokens, value=8193)",
        "vllm.input_passed",
        prompt=8193,
        at_least=True,
        window=8192,
        output=0,
    ),
    Refusal(
        "You passed 102420 input tokens and requested 0 output tokens. However, the model's "
        "context length is only 32768, resulting in a maximum input length of 32768.",
        "vllm.input_passed",
        prompt=102420,
        window=32768,
        output=0,
    ),
    Refusal(
        "You passed 100000 input characters and requested 64 output tokens. However, the model's "
        "context length is only 8192 tokens, resulting in a maximum input length of 8128 tokens "
        "(at most 81280 characters). Please reduce the length of the input prompt.",
        "vllm.characters_passed",
        prompt=8129,
        at_least=True,
        window=8192,
        output=64,
    ),
    Refusal(
        f"{CONTEXT} 65536 tokens. However, your request has 85605 input tokens. Please reduce the "
        "length of the input messages. (parameter=input_tokens, value=85605)",
        "vllm.request_has",
        prompt=85605,
        window=65536,
    ),
    Refusal(
        f"'max_tokens' or 'max_completion_tokens' is too large: 64. {CONTEXT} 8192 tokens and your "
        "request has 8150 input tokens (64 > 8192 - 8150).",
        "vllm.max_tokens_too_large",
        prompt=8150,
        window=8192,
        output=64,
    ),
    Refusal(
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). "
        "Make sure that `max_model_len` is no smaller than the number of text tokens plus "
        "multimodal tokens.",
        "vllm.total_length",
        prompt=25938,
        window=4096,
    ),
    Refusal(
        "The prompt does not fit, in words yet to come. (parameter=input_tokens, value=16385)",
        "vllm.parameter",
        prompt=16385,
        at_least=True,
    ),
    # llama.cpp
    Refusal(
        "request (60179 tokens) exceeds the available context size (60160 tokens), try increasing "
        "it",
        "llamacpp.request_tokens",
        prompt=60179,
        window=60160,
    ),
    Refusal(
        "the request exceeds the available context size. try increasing the context size or "
        "enable context shift",
        "llamacpp.available_context",
    ),
    Refusal(
        "the request exceeds the available context size, try increasing it",
        "llamacpp.available_context",
    ),
    Refusal(
        "context_length_exceeded: the request exceeds the available context size; context shift "
        "is disabled",
        "llamacpp.available_context",
    ),
    Refusal("Context size has been exceeded.", "llamacpp.pool_exceeded"),
    Refusal("context shift is disabled", "llamacpp.context_shift"),
    Refusal(
        "input (9000 tokens) is larger than the max context size (8192 tokens). skipping",
        "llamacpp.input_larger",
        prompt=9000,
        window=8192,
    ),
    Refusal(
        "input (9000 tokens) is larger than the max context size. skipping",
        "llamacpp.input_larger",
        prompt=9000,
    ),
    Refusal(
        "Requested tokens (4235) exceed context window of 4096",
        "llamacpp.python",
        prompt=4235,
        window=4096,
    ),
    # OpenAI, the versions of vLLM that copied it, and gateways
    Refusal(
        f"{CONTEXT} 4096 tokens. However, you requested 4726 tokens (3726 in the messages, 1000 in "
        "the completion). Please reduce the length of the messages or completion.",
        "openai.requested",
        prompt=3726,
        window=4096,
        output=1000,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, you requested 9000 tokens (4000 in the messages, 1000 in "
        "the functions, and 4000 in the completion). Please reduce the length of the messages, "
        "functions, or completion.",
        "openai.requested",
        prompt=5000,
        window=8192,
        output=4000,
    ),
    Refusal(
        f"{CONTEXT} 8191 tokens, however you requested 10346 tokens (10341 in your prompt; 5 for "
        "the completion). Please reduce your prompt; or completion length.",
        "openai.requested",
        prompt=10341,
        window=8191,
        output=5,
    ),
    Refusal(
        "This endpoint's maximum context length is 1048576 tokens. However, you requested about "
        "1293741 tokens (1227853 of text input, 353 of tool input, 65535 in the output).",
        "openai.requested",
        prompt=1228206,
        window=1048576,
        output=65535,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, you requested 9000 tokens in the messages, Please reduce "
        "the length of the messages.",
        "openai.requested_in_messages",
        prompt=9000,
        window=8192,
    ),
    Refusal(
        f"{CONTEXT} 8192 tokens. However, your messages resulted in 8545 tokens. Please reduce the "
        "length of the messages.",
        "openai.messages_resulted",
        prompt=8545,
        window=8192,
    ),
    Refusal(
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "280010 tokens. Please reduce the length of the messages.",
        "openai.configured_limit",
        prompt=280010,
        window=272000,
    ),
    Refusal(
        "prompt is too long: 215000 tokens > 200000 maximum",
        "openai.prompt_too_long",
        prompt=215000,
        window=200000,
    ),
    Refusal(
        "Maximum context length is 8192 tokens, in words yet to come.",
        "openai.maximum_context",
        window=8192,
    ),
    Refusal(
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        "openai.context_window",
    ),
    Refusal(
        "litellm.ContextWindowExceededError: ContextWindowExceededError",
        "openai.context_length_exceeded",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.wording)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda error: error,
        json.dumps,
        lambda error: json.dumps(error).encode(),
        lambda error: json.dumps(error).replace("'", "\\u0027").replace(">", "\\u003e").encode(),
        lambda error: {"error": json.dumps(error)},
        lambda error: json.dumps({"error": json.dumps(error)}).encode(),
        lambda error: {"errors": [{"message": f"AiError: AiError: {json.dumps(error)} (097d)"}]},
        lambda error: {"detail": f"litellm.BadRequestError: Error code: 400 - {error}"},
        lambda error: [error],
    ],
    ids=["parsed", "text", "bytes", "escaped", "in a string", "twice", "list", "repr", "array"],
)
def test_every_wording_however_it_is_wrapped(refusal: Refusal, wrap: Callable[[Any], Any]) -> None:
    error = {"error": {"code": 400, "message": refusal.message, "type": "BadRequestError"}}
    assert overflow_of(400, wrap(error)) == refusal.overflow


def test_every_wording_of_every_server_is_in_the_table() -> None:
    declared = {name for server in (vllm, llamacpp, openai) for name in server.OVERFLOWS}
    by_type_alone = {"llamacpp.error_type"}
    assert declared == {refusal.wording for refusal in REFUSALS} | by_type_alone


@pytest.mark.parametrize(
    ("status", "name", "overflow"),
    [
        (
            400,
            "llamacpp_overflow_400",
            Overflow(3022, at_least=False, window=512, wording="llamacpp.request_tokens"),
        ),
        (
            500,
            "llamacpp_overflow_500",
            Overflow(None, at_least=False, window=None, wording="llamacpp.pool_exceeded"),
        ),
        (
            200,
            "llamacpp_overflow_in_stream",
            Overflow(None, at_least=False, window=None, wording="llamacpp.pool_exceeded"),
        ),
        (400, "llamacpp_bad_request_400", None),
        (404, "llamacpp_not_found_404", None),
        (200, "llamacpp_chat", None),
    ],
)
def test_real_llamacpp_answers(
    recorded: Recorded, status: int, name: str, overflow: Overflow | None
) -> None:
    answer = recorded(name)
    assert overflow_of(status, answer) == overflow
    if status >= 400:
        assert overflow_of(status, json.dumps(answer).encode()) == overflow


def test_numbers_outside_an_older_message() -> None:
    error = {
        "code": 500,
        "message": "the request exceeds the available context size. try increasing the context "
        "size or enable context shift",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 1407,
        "n_ctx": 256,
    }
    expected = Overflow(1407, at_least=False, window=256, wording="llamacpp.available_context")
    assert overflow_of(500, {"error": error}) == expected
    assert overflow_of(500, json.dumps({"error": json.dumps({"error": error})})) == expected


def test_type_or_code_without_a_known_message() -> None:
    typed = {"message": "?", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}
    assert overflow_of(400, {"error": typed}) == Overflow(
        9, at_least=False, window=8, wording="llamacpp.error_type"
    )
    coded = {"message": "?", "code": "context_length_exceeded"}
    assert overflow_of(400, {"error": coded}) == Overflow(
        None, at_least=False, window=None, wording="openai.context_length_exceeded"
    )


UNRELATED = (
    "'messages' is a required property",
    "'temperature' must be in [0, 2]",
    "max_tokens must be at least 1, got 0.",
    "truncate_prompt_tokens=9000 cannot be greater than max_total_tokens - max_output_tokens = 8128.",
    "input is too large to process. increase the physical batch size",
    "The model `gpt-9` does not exist.",
    "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 20000, Requested 15000.",
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 52000.",
    "Loading model",
    "System message must be at the beginning.",
)


@pytest.mark.parametrize("message", UNRELATED)
def test_other_errors_are_none(message: str) -> None:
    for status in (400, 422, 429, 500, 503):
        assert overflow_of(status, {"error": {"message": message, "type": "x"}}) is None
        assert overflow_of(status, message) is None


def test_a_quoted_request_that_talks_about_overflows_is_none() -> None:
    """Validation errors repeat the request, and an agent may be debugging someone's overflow."""
    request = {
        "messages": "Why 'request (9 tokens) exceeds the available context size (8 tokens)'?"
    }
    message = f"[{{'type': 'list_type', 'loc': ('body', 'messages'), 'input': {request}}}]"
    error = {"error": {"message": message, "type": "BadRequestError", "code": 400}}
    assert overflow_of(400, error) is None
    assert overflow_of(400, json.dumps(error).encode()) is None
    pydantic = {"detail": [{"type": "list_type", "msg": "not a list", "input": request}]}
    assert overflow_of(422, json.dumps(pydantic).encode()) is None


@pytest.mark.parametrize("body", ["Context size has been exceeded.", b"prompt is too long", {}])
def test_a_good_answer_is_none_whatever_it_says(body: Any) -> None:
    assert overflow_of(200, body) is None


def test_a_good_chunk_with_a_null_error_is_none() -> None:
    chunk = {"error": None, "choices": [{"delta": {"content": "Context size has been exceeded."}}]}
    assert overflow_of(200, chunk) is None


def test_an_error_nested_too_deep_to_print_is_none() -> None:
    error: dict[str, Any] = {}
    inner = error
    for _ in range(100_000):
        inner["error"] = {}
        inner = inner["error"]
    assert overflow_of(400, error) is None
    while error:  # taken apart by hand: freeing it at once may recurse as deep
        error = error["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.integers(0, 599), st.dictionaries(st.sampled_from(["error", "message"]), JSON) | JSON)
def test_any_json_is_no_overflow_and_never_raises(status: int, body: Any) -> None:
    assert overflow_of(status, body) is None


@given(st.integers(0, 599), st.binary() | st.text())
def test_any_bytes_never_raise(status: int, body: bytes | str) -> None:
    assert overflow_of(status, body) is None


@given(st.sampled_from(REFUSALS), st.text(max_size=30), st.text(max_size=30))
def test_words_around_the_sentence_do_not_matter(refusal: Refusal, before: str, after: str) -> None:
    found = overflow_of(400, {"error": f"{before} {refusal.message} {after}"})
    assert found == refusal.overflow
