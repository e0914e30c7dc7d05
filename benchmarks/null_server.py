"""What does a call cost when the server does nothing? Answers every request alike.

Its counts grow with the request, as a server's do: else kvagent would look whether prompts are cut off.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

# A token is four bytes, about.
_BYTES = 4


def _reply(prompt_tokens: int) -> bytes:
    return json.dumps(_REPLY | {"usage": _usage(prompt_tokens)}).encode()


def _usage(prompt_tokens: int) -> dict[str, object]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": 2,
        "total_tokens": prompt_tokens + 2,
        "prompt_tokens_details": {"cached_tokens": prompt_tokens * 9 // 10},
    }


_REPLY = {
    "id": "chatcmpl-0",
    "object": "chat.completion",
    "created": 0,
    "model": "null",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Done."},
            "finish_reason": "stop",
        }
    ],
}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            await reader.readexactly(length)
            if not head.startswith(b"POST"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                continue
            reply = _reply(length // _BYTES)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(reply)
                + reply
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _run(pipe: Connection) -> None:
    async def main() -> None:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=2**24)
        pipe.send(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    asyncio.run(main())


@contextmanager
def null_server() -> Iterator[str]:
    """A server in a process of its own; gives its base URL."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        process.terminate()
        process.join()
