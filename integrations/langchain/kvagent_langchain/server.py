"""Which server answers a model, and how long may its prompts be?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from kvagent import Engine
from kvagent.backends import Server

logger = logging.getLogger("kvagent")


class Servers:
    """What is known of servers, by address: each is asked once."""

    def __init__(self) -> None:
        self._known: dict[str, Server] = {}

    def ask(self, engine: Engine, model: Any) -> None:
        """Let an engine know which server answers the model; never raises."""
        try:
            client: Any = getattr(model, "root_client", None)
            request = self._request(engine, model, client)
            if request is None:
                return
            from kvagent_openai import probing

            probing.ask(engine, client._client.send, request, {})
            self._keep(engine, client)
        except Exception:
            logger.warning("kvagent cannot ask the server what it is", exc_info=True)

    async def aask(self, engine: Engine, model: Any) -> None:
        """``ask`` for coroutines."""
        try:
            client: Any = getattr(model, "root_async_client", None)
            request = self._request(engine, model, client)
            if request is None:
                return
            from kvagent_openai import probing

            await probing.aask(engine, client._client.send, request, {})
            self._keep(engine, client)
        except Exception:
            logger.warning("kvagent cannot ask the server what it is", exc_info=True)

    def failed(self, model: Any) -> None:
        """A call of the model failed: the server may not have been there yet when it was asked."""
        for name in ("root_client", "root_async_client"):
            address = _address(getattr(model, name, None))
            known = self._known.get(address)
            if known is not None and known.window is None:
                self._known.pop(address, None)  # unless another thread was quicker

    def _request(self, engine: Engine, model: Any, client: Any) -> Any:
        """A chat request beside which the server is to be asked; None where it is not."""
        if not engine.to_probe:
            return None
        known = self._known.get(_address(client))
        if client is not None and known is None and find_spec("kvagent_openai") is not None:
            from kvagent_openai import probing

            request = _request(client, model)
            if probing.is_due(request):
                return request
        engine.know(known or Server("openai", window=_window(model)))
        return None

    def _keep(self, engine: Engine, client: Any) -> None:
        if engine.server is not None:
            self._known[_address(client)] = engine.server


def _address(client: Any) -> str:
    return str(getattr(client, "base_url", ""))


def _request(client: Any, model: Any) -> Any:
    """A chat request as the client would send it."""
    headers = {k: v for k, v in client.default_headers.items() if isinstance(v, str)}
    address = str(client.base_url).rstrip("/") + "/chat/completions"
    body = {"model": getattr(model, "model_name", None), "messages": [{"role": "user"}]}
    return client._client.build_request("POST", address, headers=headers, json=body)


def _window(model: Any) -> int | None:
    """The window of a model whose maker has but one: as LangChain's profile of it says."""
    profile = getattr(model, "profile", None)
    window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return window if isinstance(window, int) and window > 0 else None
