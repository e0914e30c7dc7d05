"""Prompts that stand, for tests of what is cleared of them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from kvagent.chat import calls_of, text_of, with_text_appended
from kvagent.clearing import Cleared, plan
from kvagent.standing import Standing
from kvagent.volatile import NOTE

Message = dict[str, Any]


def count(text: str) -> int:
    """Tokens, in a world where each has four characters."""
    return -(-len(text) // 4)


def weigh(message: Mapping[str, Any]) -> int:
    calls = [call["function"] for call in calls_of(message)]
    return 4 + count(text_of(message) + "".join(f["name"] + f["arguments"] for f in calls))


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def reply(text: str, *calls: tuple[str, str, Mapping[str, Any]]) -> Message:
    """``calls`` are id, tool and arguments."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)},
            }
            for call_id, tool, arguments in calls
        ]
    return message


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def stand(messages: Sequence[Message], first: int = 1) -> list[Standing]:
    """The messages as they came, behind a system message."""
    return [
        Standing(index, message, message, weigh(message), depth=index)
        for index, message in enumerate(messages, first)
    ]


class Store:
    """Keeps originals, and tells what was kept."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        handle = f"r{len(self.texts):012x}"
        return self.texts.setdefault(text, handle)


def planned(standing: Sequence[Standing], free: int, **options: Any) -> list[Cleared]:
    return plan(
        standing,
        free=free,
        keep=options.pop("keep", 1),
        exclude_tools=options.pop("exclude_tools", ()),
        clear_tool_inputs=options.pop("clear_tool_inputs", True),
        count_tokens=count,
        store_original=options.pop("store", Store()),
        **options,
    )


def after(standing: Sequence[Standing], cleared: Sequence[Cleared]) -> list[Standing]:
    """What stands when a plan was carried out."""
    new = {one.index: one for one in cleared}
    return [
        each
        if each.index not in new
        else Standing(
            each.index,
            each.came,
            new[each.index].message,
            weigh(new[each.index].message),
            cleared=True,
            depth=each.depth,
        )
        for each in standing
    ]


def tokens(standing: Sequence[Standing]) -> int:
    return sum(each.tokens for each in standing)


def log(seed: int, lines: int = 60) -> str:
    """Lines of which each names something of its own."""
    rng = random.Random(seed)
    return "\n".join(
        f"  {rng.choice(_VERBS)} {rng.choice(_NOUNS)}_{seed}_{line} in src/{rng.choice(_NOUNS)}/m{seed}.py"
        for line in range(lines)
    )


_VERBS = ("handled", "reads", "wrote", "skipped", "took the")
_NOUNS = ("job", "user", "queue", "parser", "token", "index")

_texts = st.one_of(
    st.builds(log, st.integers(0, 5), st.integers(1, 40)),
    st.text(max_size=300),
    st.sampled_from(("", "ok", "the same words again and again " * 40, "x" * 1500)),
)
_arguments = st.dictionaries(
    st.sampled_from(("path", "content", "command", "edits", "n")),
    st.one_of(
        st.sampled_from(("src/a.py", "src/b.py")),
        _texts,
        st.integers(0, 2**70),
        st.lists(st.fixed_dictionaries({"new": _texts}), max_size=2),
    ),
    max_size=3,
)


@st.composite
def prompts(draw: st.DrawFn) -> list[Standing]:
    """Whole conversations; some results were shortened before, some bear a note."""
    messages: list[Message] = [user(draw(_texts))]
    for turn in range(draw(st.integers(1, 4))):
        calls = [
            (f"c{turn}-{n}", draw(st.sampled_from(("read", "run"))), draw(_arguments))
            for n in range(draw(st.integers(0, 2)))
        ]
        messages.append(reply(draw(_texts), *calls))
        messages += [result(call[0], draw(_texts)) for call in calls]
        if not calls or draw(st.integers(0, 4)) == 0:
            messages.append(user(draw(_texts)))
    standing = stand(messages)
    for place in draw(st.sets(st.integers(0, len(standing) - 1), max_size=2)):
        each = standing[place]
        if each.role in ("user", "tool"):
            noted = with_text_appended(each.came, f"\n\n{NOTE}the date is now 2026-11-30")
            standing[place] = Standing(each.index, each.came, noted, weigh(noted), depth=each.index)
    return standing
