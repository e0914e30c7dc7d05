"""AsyncOpenAI with streamed replies, two conversations at once, each named by its ticket."""

from __future__ import annotations

import asyncio
import os

from openai import AsyncOpenAI

import kvagent

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")


def show(event: kvagent.Event) -> None:
    """Print one line a turn."""
    if isinstance(event, kvagent.TurnFinished):
        print(
            f"{event.conversation} turn {event.turn}: {event.cached_tokens} of "
            f"{event.prompt_tokens} prompt tokens cached, first text after {event.ttft_s:.2f} s"
        )


async def work(client: AsyncOpenAI, ticket: str) -> None:
    """A conversation of three turns."""
    messages: list[dict[str, str]] = [
        {"role": "system", "content": f"You answer questions about {ticket} in one sentence."}
    ]
    with kvagent.session(ticket):
        for question in ("What is it about?", "Who waits for it?", "What is next?"):
            messages.append({"role": "user", "content": question})
            stream = await client.chat.completions.create(
                model=MODEL,
                messages=messages,  # type: ignore[arg-type]
                max_tokens=24,
                stream=True,
                stream_options={"include_usage": True},  # or the server does not say the counts
            )
            text = ""
            async for chunk in stream:
                if chunk.choices:
                    text += chunk.choices[0].delta.content or ""
            messages.append({"role": "assistant", "content": text})


async def main() -> None:
    client = kvagent.wrap(AsyncOpenAI(base_url=BASE_URL, api_key="none"), on_event=show)
    async with client:
        await asyncio.gather(work(client, "ticket-4711"), work(client, "ticket-4712"))


if __name__ == "__main__":
    asyncio.run(main())
