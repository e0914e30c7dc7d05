"""Did the server's cache give less than the prompt has in common with what it computed before?

The prompt is not at fault here: the same tokens were computed before, and the chosen server has not
kept them, or cannot use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvagent.audit.rule import Rule, Sighting, Spot
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Traced, Turn
from kvagent.prefixcache.hit import Loss

# Less than this is lost by chance: every prompt of a template begins with the same few tokens. And
# what does not fill a block of usual size is not worth a word.
_LEAST = 64
_LEAST_OF_A_BLOCK = 256

BELOW_A_BLOCK = Rule(
    "KVA401",
    "below-a-block",
    "warning",
    "prefill",
    "The beginning that prompts have in common is shorter than a block of the cache.",
    "vLLM keeps and finds whole blocks only. A block has 16 tokens on most GPUs, 128 on CPUs, and "
    "hundreds or thousands for models that mix attention with other layers (Qwen3.5, Qwen3-Next, "
    "Nemotron-H, Jamba, ...). Where the shared beginning does not fill the first block, nothing of "
    "it is ever taken from the cache, and the server says nothing about it.",
    "Put what is the same in all requests (tools, instructions, examples) in front, so that it "
    "fills blocks, and look at the block size that the server logs at its start.",
    "# vLLM: the block size in use\n"
    "curl -s localhost:8000/metrics | grep vllm:cache_config_info\n"
    "# finer hits, where all groups of layers support it\n"
    "vllm serve MODEL --prefix-match-unit 16",
)

CAPACITY = Rule(
    "KVA402",
    "capacity",
    "warning",
    "prefill",
    "The cache is too small for the conversations that use it at the same time.",
    "A block that no running request uses stays in the cache until the room is needed; then what "
    "was used longest ago goes first, and of a conversation its end before its beginning. If a "
    "conversation's turn comes after the others have filled the cache, its history is prefilled "
    "again although no character of it changed. The more conversations take turns, and the longer "
    "they are, the more often that happens.",
    "Give the cache more room, let fewer conversations take turns on one server, send a "
    "conversation to the same replica each time, or make the prompts shorter.",
    "vllm serve MODEL --gpu-memory-utilization 0.95 --kv-cache-dtype fp8 \\\n"
    "    --kv-offloading-size 64   # GiB of host memory for blocks that leave the GPU",
)

SLOT_LOST = Rule(
    "KVA403",
    "slot-lost",
    "warning",
    "prefill",
    "Another conversation has taken the slot of llama.cpp that held this one.",
    "Each slot of llama.cpp holds the tokens of one conversation. A request goes to the slot that "
    "it has most in common with (more than a tenth of the prompt), else to the one that was used "
    "longest ago, and what does not match there is dropped. So a sub-agent with the same system "
    "prompt lands in the main agent's slot, and when the main agent comes back, its history is "
    "prefilled again, unless the host's cache (--cache-ram) has kept a copy.",
    "Start the server with a slot for each conversation that is going on, leave the host's cache "
    "on, and give each agent its own slot with id_slot.",
    "llama-server -m MODEL.gguf -c 65536 -np 4 --cache-ram 16384  # 16,384 tokens a slot\n"
    "# in the request: one slot for each agent\n"
    'client.chat.completions.create(..., extra_body={"id_slot": 1})',
)

CHECKPOINT = Rule(
    "KVA408",
    "no-checkpoint",
    "warning",
    "prefill",
    "The model's state cannot be rolled back to where the prompt left the one before.",
    "Layers with a sliding window, and recurrent ones (Mamba, gated delta nets), keep a state that "
    "holds only at the end of what was computed. To go back to an earlier place the server needs a "
    "checkpoint there, and it keeps few: llama.cpp 32 a slot, at least 8,192 tokens apart, vLLM "
    "only the ends of prompts and the places at which prompts are known to part. So on Gemma, "
    "gpt-oss or Qwen3.5 an edit in mid-history costs far more than what stands behind it, often the "
    "whole prompt; a prompt that only grows costs nothing.",
    "Let the prompt only grow, make edits of the history rare and many at once, or have the server "
    "keep more checkpoints.",
    "llama-server ... --ctx-checkpoints 64 --checkpoint-min-step 1024   # or --swa-full\n"
    "vllm serve ... --prefix-cache-retention-interval 2048",
)

NOT_READ = Rule(
    "KVA410",
    "cache-not-read",
    "error",
    "prefill",
    "The request asks the server not to read its cache.",
    "vLLM skips the cache of requests with prompt_logprobs (or echo with logprobs), because it "
    "needs the logits of every prompt token; llama.cpp skips it with cache_prompt: false. All of "
    "the prompt is prefilled each time, whatever it has in common with the one before.",
    "Leave out prompt_logprobs, or cache_prompt: false, in the requests of the agent.",
)

RULES = (BELOW_A_BLOCK, CAPACITY, SLOT_LOST, CHECKPOINT, NOT_READ)

_RULES: Mapping[Loss, Rule] = {
    "evicted": CAPACITY,
    "slot": SLOT_LOST,
    "checkpoint": CHECKPOINT,
    "off": NOT_READ,
}

_SAID: Mapping[Loss, str] = {
    "evicted": "The cache is too small for the conversations that take turns on it.",
    "slot": "What these conversations were sent before is in no slot any more.",
    "checkpoint": "There is no checkpoint where these prompts leave the ones before.",
    "off": "These requests ask the server not to read its cache.",
}


class Cache:
    """Looks at what the chosen server would not give although it had computed it."""

    def __init__(self) -> None:
        self._traced = 0

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What was lost in the server."""
        cached = turn.predicted_tokens
        if cached is None or turn.reusable_tokens - cached < _LEAST:
            return ()
        return self._lost(turn, turn.reusable_tokens - cached)

    def _lost(self, turn: Turn, lost: int) -> Iterable[Sighting]:
        target = turn.target
        if turn.loss in ("block", "whole_prompt"):
            if turn.predicted_tokens or lost < _LEAST_OF_A_BLOCK:
                return
            rule = BELOW_A_BLOCK
            said = (
                "The beginning that these prompts share with earlier ones does not fill a block "
                f"of {target.block_size:,} tokens."
            )
        elif turn.loss:
            rule, said = _RULES[turn.loss], _SAID[turn.loss]
            if rule is SLOT_LOST and (turn.kind not in ("grown", "again") or turn.differences):
                # A slot gives nothing to another one: so it is made. Only what this conversation
                # was sent just before should still be in its own.
                return
            if rule is CAPACITY and target.room is not None:
                said = (
                    f"A cache of {target.room:,} tokens is too small for the conversations that take "
                    "turns on it."
                )
        else:
            return
        yield Sighting(rule, None, spot_of(turn, tokens=lost), said, everywhere=True)

    def traced(self, traced: Traced) -> Iterable[Sighting]:
        """The same for a trace without texts, whose conversations are not known."""
        self._traced += 1
        if traced.loss != "evicted" or traced.lost_tokens < _LEAST:
            return
        spot = Spot(traced.request.place, 0, self._traced, tokens=traced.lost_tokens)
        yield Sighting(CAPACITY, None, spot, _SAID["evicted"], everywhere=True)

    def end(self) -> Iterable[Sighting]:
        """Nothing: each loss was told when it came."""
        return ()
