"""Which tokens does a server's answer name, and if none, why?"""

from __future__ import annotations

from kvagent.backends.prompt import PromptError
from kvagent.backends.values import Fetched
from kvagent.backends.wire import count, json_object, reason


def token_ids(answer: Fetched, key: str, asked: str) -> list[int]:
    """The ids under ``key``; ``asked`` is who was asked, for a message.

    Raises:
        PromptError: there are none; it says what the server says, or what to do.
    """
    found = json_object(answer).get(key)
    if not isinstance(found, list) or any(count(each) is None for each in found):
        raise refused(answer, asked)
    return found


def refused(answer: Fetched, asked: str) -> PromptError:
    """Why there is no such thing in the answer."""
    if answer.status == 0:
        return PromptError(f"{asked} does not answer", _NO_SERVER)
    if answer.status in (404, 405, 501):
        return PromptError(f"{asked} is not there (status {answer.status})", _NO_SERVER)
    if answer.status in (401, 403):
        return PromptError(f"{asked} wants a key (status {answer.status})")
    if not 400 <= answer.status < 600:
        return PromptError(f"{asked} answers in a way that is not known here", _NO_SERVER)
    return PromptError(f"{asked} refuses the request: {reason(answer)}")


_NO_SERVER = "pass the model's GGUF file or its Hugging Face folder instead"
