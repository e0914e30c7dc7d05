"""Wrap a client: what does the server stop prefilling? The same code for vLLM and llama.cpp."""

from __future__ import annotations

import datetime
import os

from openai import OpenAI

import kvagent

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")


def show(event: kvagent.Event) -> None:
    """Print what each turn cost, and what kvagent did to keep it low."""
    if isinstance(event, kvagent.TurnFinished):
        print(
            f"turn {event.turn}: {event.prompt_tokens} prompt tokens, "
            f"{event.cached_tokens} of them from the cache"
        )
    else:
        print(f"  {event}")


def main() -> None:
    client = kvagent.wrap(OpenAI(base_url=BASE_URL, api_key="none"), on_event=show)
    history: list[dict[str, str]] = []
    for question in ("What is a KV cache?", "Why is its prefix so valuable?", "Say it shorter."):
        # The clock would make the server prefill everything again, every turn.
        clock = f"Current time: {datetime.datetime.now().isoformat(timespec='milliseconds')}"
        system = {"role": "system", "content": f"{clock}\nYou explain servers in one sentence."}
        history.append({"role": "user", "content": question})
        reply = client.chat.completions.create(
            model=MODEL,
            messages=[system, *history],  # type: ignore[arg-type]
            max_tokens=32,
        )
        history.append({"role": "assistant", "content": reply.choices[0].message.content or ""})


if __name__ == "__main__":
    main()
