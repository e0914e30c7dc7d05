"""Did a conversation change what its cached prefix is kept under?

Not a token of the prompt is another, and nothing of what was cached applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvagent.audit.recent import Recent
from kvagent.audit.rule import Contrast, Rule, Sighting
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Turn

SALT_CHANGED = Rule(
    "KVA404",
    "salt-changed",
    "error",
    "prefill",
    "The cache salt changed within a conversation.",
    "vLLM mixes cache_salt into the hash of the first block, and every later block depends on that "
    "one: requests with different salts share nothing. That is what a salt is for, between users. "
    "A salt made anew for each request or session object turns the cache off.",
    "Choose the salt once for each user or tenant and send the same one with every request.",
    'client.chat.completions.create(..., extra_body={"cache_salt": tenant.secret})  # not uuid4()',
)

MODEL_CHANGED = Rule(
    "KVA412",
    "model-changed",
    "warning",
    "prefill",
    "The conversation moved to another model or adapter.",
    "Each model, and each LoRA adapter, computes its own KV cache from the same tokens: the history "
    "is prefilled again for the new one, and again when the conversation comes back, if the cache "
    "was not kept for so long. A router that chooses a model for each step does that all the time.",
    "Let a conversation stay with one model; give the steps for another one a conversation of "
    "their own, with no more than they need.",
)

ROUTING_CHANGED = Rule(
    "KVA411",
    "cache-key-changed",
    "warning",
    "prefill",
    "The key by which requests are sent to a machine's cache changed within a conversation.",
    "OpenAI routes by a hash of the prompt's beginning together with prompt_cache_key. Another key "
    "may be another machine, which has nothing of the conversation in its cache.",
    "Use one key for each conversation, or for all requests that share a long beginning.",
    'client.chat.completions.create(..., prompt_cache_key=f"agent-{conversation_id}")',
)

RULES = (SALT_CHANGED, MODEL_CHANGED, ROUTING_CHANGED)

_RULES: Mapping[str, Rule] = {
    "cache_salt": SALT_CHANGED,
    "lora": MODEL_CHANGED,
    "model": MODEL_CHANGED,
    "prompt_cache_key": ROUTING_CHANGED,
}

# Branches whose last prompts are remembered by their length, and values that branches were sent with
# before.
_ROOM = 20_000


@dataclass(slots=True)
class _Sent:
    """What a branch was sent last."""

    options: Mapping[str, bytes]
    tokens: int


class CacheKey:
    """Looks at the options that say whose cache applies."""

    def __init__(self) -> None:
        self._last: Recent[int, _Sent] = Recent(_ROOM)
        # The last prompt with a value that is not the branch's any more.
        self._earlier: Recent[tuple[int, str, bytes], int] = Recent(_ROOM)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """Which of them is not as it was."""
        branch, options, before = (
            turn.placed.branch,
            turn.placed.snapshot.options,
            turn.placed.before,
        )
        last = self._last.get(branch)
        if last is not None and last.options == options:
            last.tokens = turn.prompt_tokens
            return ()
        seen = [] if before is None else list(self._changed(turn, before.options, options))
        if last is not None:
            for key in _RULES:
                self._earlier.put((branch, key, last.options.get(key, b"")), last.tokens)
        self._last.put(branch, _Sent(options, turn.prompt_tokens))
        return seen

    def _changed(
        self, turn: Turn, old: Mapping[str, bytes], new: Mapping[str, bytes]
    ) -> Iterable[Sighting]:
        for key, rule in _RULES.items():
            before, value = old.get(key, b""), new.get(key, b"")
            # No salt is a salt of its own; no model is one that the log does not tell.
            if value == before or not (rule is SALT_CHANGED or (before and value)):
                continue
            known = self._earlier.get((turn.placed.branch, key, value)) or 0
            yield Sighting(
                rule,
                key,
                spot_of(
                    turn,
                    field=key,
                    tokens=max(0, turn.reusable_tokens - known),
                    contrast=Contrast(_shown(before), _shown(value), 0),
                ),
                f"{key} is not what it was in the request before.",
                everywhere=True,
            )

    def end(self) -> Iterable[Sighting]:
        """Nothing: each change was told when it came."""
        return ()


def _shown(value: bytes) -> str:
    return value.decode(errors="replace").strip('"')
