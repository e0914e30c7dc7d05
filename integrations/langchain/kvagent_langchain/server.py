"""Which server answers a chat model, and how long may its prompts be?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kvagent import Engine
from kvagent.backends import Server

logger = logging.getLogger("kvagent")


class Servers:
    """What is known of servers, by address: each is asked once."""

    def __init__(self) -> None:
        self._known: dict[str, Server] = {}

    def ask(self, engine: Engine, model: Any) -> None:
        """Let an engine know which server answers the model."""
        client = getattr(model, "root_client", None)
        if self._is_known(engine, model, client):
            return
        try:
            from kvagent_openai import probing

            http = client._client
            probing.ask(engine, http.send, _request(client, http, model), {})
            self._keep(engine, client)
        except Exception:
            logger.warning("kvagent cannot ask the server what it is", exc_info=True)

    async def aask(self, engine: Engine, model: Any) -> None:
        """``ask`` for coroutines."""
        client = getattr(model, "root_async_client", None)
        if self._is_known(engine, model, client):
            return
        try:
            from kvagent_openai import probing

            http = client._client
            await probing.aask(engine, http.send, _request(client, http, model), {})
            self._keep(engine, client)
        except Exception:
            logger.warning("kvagent cannot ask the server what it is", exc_info=True)

    def _is_known(self, engine: Engine, model: Any, client: Any) -> bool:
        """Whether there is nothing to ask, or nobody."""
        if not engine.to_probe:
            return True
        if client is None:
            engine.know(Server("openai", window=_window(model)))
            return True
        known = self._known.get(str(client.base_url))
        if known is not None:
            engine.know(known)
        return known is not None

    def _keep(self, engine: Engine, client: Any) -> None:
        if engine.server is not None and engine.server.window is not None:
            self._known[str(client.base_url)] = engine.server


def _request(client: Any, http: Any, model: Any) -> Any:
    """A chat request as the client would send it, beside which the server can be asked."""
    headers = {k: v for k, v in client.default_headers.items() if isinstance(v, str)}
    address = str(client.base_url).rstrip("/") + "/chat/completions"
    body = {"model": getattr(model, "model_name", None), "messages": [{"role": "user"}]}
    return http.build_request("POST", address, headers=headers, json=body)


def _window(model: Any) -> int | None:
    """The window of a model whose maker has but one: as LangChain's profile of it says."""
    profile = getattr(model, "profile", None)
    window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return window if isinstance(window, int) and window > 0 else None
