"""Which server is this, how long may a prompt be, and does it tell what it had cached?"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from kvagent.backends import llamacpp, openai, vllm
from kvagent.backends.usage import usage_of
from kvagent.backends.values import Fetch, Fetched, Server
from kvagent.backends.wire import mapping

_Prober: TypeAlias = Callable[
    [openai.Listing, str | None], Generator[Fetch, Fetched, Server | None]
]

_NOT_REPORTED = (vllm.NOT_REPORTED, openai.NOT_REPORTED)


def probe(model: str | None) -> Generator[Fetch, Fetched, Server]:
    """Asks for one to four GETs and returns the server; does no I/O of its own.

    The list of models comes first: every server has it, under the client's own base URL, and it
    names its maker. So llama.cpp takes two GETs, vLLM three, OpenAI itself one; only where the
    list says nothing are the servers' own addresses tried. No answer at all ends it at once.

    Whatever comes back (a web page, a 401, other types), the result is a `Server`, at worst of
    kind ``openai`` with nothing known. Whoever drives this limits its time; to close it early is
    harmless.
    """
    answer = yield openai.MODELS
    found = openai.listing(answer, model)
    if answer.status == 0 or openai.lists(found):
        return openai.server(found, model)
    for prober in _probers(found):
        server = yield from prober(found, model)
        if server is not None:
            return server
    return openai.server(found, model)


def _probers(found: openai.Listing) -> tuple[_Prober, ...]:
    if llamacpp.lists(found):
        return (llamacpp.probe,)
    if vllm.lists(found):
        return (vllm.probe,)
    return (llamacpp.probe, vllm.probe)


def learn(server: Server, reply: Mapping[str, Any], *, hit_due: bool = False) -> Server:
    """What one more reply teaches about whether cached tokens are reported.

    A count, 0 included, proves that they are. A reply with usage but without the count proves
    nothing by itself: several versions of vLLM leave it out when nothing was cached. It means "not
    reported" if this version would report a miss, or if a hit was due (``hit_due``: the caller
    knows that the server has just seen a long prefix of this very prompt). A later count takes it
    back.

    Returns ``server`` itself when nothing is new.
    """
    if usage_of(reply).cached_tokens is not None:
        if server.reports_cached:
            return server
        advice = None if server.advice in _NOT_REPORTED else server.advice
        return replace(server, reports_cached=True, advice=advice)
    if server.reports_cached is not None or not openai.has_usage(mapping(reply)):
        return server
    is_vllm = server.kind == "vllm"
    if not hit_due and not (is_vllm and vllm.null_is_off(server.version)):
        return server
    missing = vllm.NOT_REPORTED if is_vllm else openai.NOT_REPORTED
    return replace(server, reports_cached=False, advice=server.advice or missing)
