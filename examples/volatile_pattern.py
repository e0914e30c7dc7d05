"""Text of your own that changes with each request: declared by a pattern, or marked where it is made."""

from __future__ import annotations

import os

from openai import OpenAI

import kvagent

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")

# Clocks, dates, uuids and request ids are known. A build number is not: say what it looks like.
POLICY = kvagent.Policy(
    volatile=kvagent.Volatile(patterns=(r"build (?P<value>[A-Z]\d+)",)),
)


def main() -> None:
    events: list[kvagent.Event] = []
    client = kvagent.wrap(
        OpenAI(base_url=BASE_URL, api_key="none"), policy=POLICY, on_event=events.append
    )
    history: list[dict[str, str]] = []
    for build, weather in (("A100", "sunny"), ("A101", "rain"), ("A102", "snow")):
        system = (
            f"You look after build {build} of the product.\n"
            f"The weather at the office is {kvagent.volatile(weather)}.\n"
            + "Answer in one sentence. "
            * 20
        )
        history.append({"role": "user", "content": "Which build is it now?"})
        reply = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "system", "content": system}, *history],  # type: ignore[list-item]
            max_tokens=24,
        )
        history.append({"role": "assistant", "content": reply.choices[0].message.content or ""})

    for event in events:
        if isinstance(event, kvagent.TurnFinished):
            print(f"turn {event.turn}: {event.cached_tokens} of {event.prompt_tokens} cached")
    broken = sum(isinstance(event, kvagent.PrefixBroken) for event in events)
    print(f"prefix breaks: {broken}")


if __name__ == "__main__":
    main()
