"""How is a run told to a person?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvagent import CacheMissed, PrefixBroken
from kvagent.events import Part
from kvagent_langchain.tally import Conversation, Tally

WIDTH = 80
_MOST_CONVERSATIONS = 12

CAUSES: Mapping[str, str] = {
    "message_changed": "A message that was sent before was changed: edited, shortened or cleared. "
    "Do it to many at once, and seldom.",
    "message_inserted": "A message was put between old ones. Append it instead.",
    "message_reserialised": "A message came back in another form, such as text as a list of parts.",
    "messages_removed": "Old messages left: a sliding window, trimming or a summary. Drop many at "
    "once, and seldom.",
    "options_changed": "An option that shapes the prompt changed. Keep it for a whole conversation.",
    "schema_key_order": "A tool's schema has its keys in another order. Build it once.",
    "system_changed": "The system message says something else. Say what changes in the newest "
    "message.",
    "system_reserialised": "The system message came in another form.",
    "text_moved": "Text was taken out of an old message and put into the newest. Leave it there.",
    "tools_changed": "Tools came, left or changed. Bind all of them from the first turn on.",
    "tools_reordered": "The same tools in another order. Bind them in one order.",
    "volatile_text": "A clock, an id or the like stands before the history. Say it in the newest "
    "message.",
    "evicted": "Other conversations took the room that the server's cache has.",
    "restart": "Nobody else was served meanwhile: a restart, or somebody who is not measured.",
    "slot_lost": "Another conversation took the slot.",
    "template": "The chat template may write old messages anew, or drops their reasoning.",
}
"""What happened, by the cause of a break or a miss, and what helps."""

_PARTS: Mapping[Part, str] = {
    "head": "system and tools",
    "user": "user",
    "assistant": "replies",
    "tool": "tool results",
}


def render(
    total: Tally,
    models: Mapping[str, Tally],
    conversations: Sequence[Conversation],
    losses: Sequence[PrefixBroken | CacheMissed],
    notes: Sequence[str],
) -> RenderableType:
    """The sums, the conversations, why what was lost was lost, for a console of 80 columns."""
    parts: list[RenderableType] = [_summary(total)]
    if len(models) > 1:
        parts += ["", _models(models)]
    if conversations:
        parts += ["", _conversations(conversations), *_below(conversations)]
    if losses:
        parts += ["", _losses(losses)]
    for note in notes:
        parts += ["", Text(note)]
    return Group(*parts)


def plain(renderable: RenderableType) -> str:
    """The same without colours, in 80 columns."""
    console = Console(width=WIDTH, file=StringIO(), color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _summary(total: Tally) -> Text:
    text = Text(f"{_count(total.turns, 'turn')}, {total.prompt_tokens:,} prompt tokens")
    if total.hit_rate is not None:
        text.append(f": {total.cached_tokens:,} from the cache ({total.hit_rate:.1%}), ")
        text.append(f"{total.prefilled_tokens:,} prefilled", "bold")
    elif total.turns:
        text.append(", nobody says how many of them were cached")
    lost = f", about {total.lost_tokens:,} tokens prefilled again" if total.lost_tokens else ""
    misses = f", {_count(total.misses, 'cache miss', 'cache misses')}" if total.misses else ""
    text.append(f"\n{_count(total.breaks, 'prefix break')}{misses}{lost}")
    return text


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    first, *others = columns
    table.add_column(first, overflow="ellipsis")  # the only one that may become narrower
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _models(models: Mapping[str, Tally]) -> Table:
    table = _table("model", "turns", "prompt", "cached", "prefilled", "hit", "breaks", "lost")
    for name, tally in models.items():
        table.add_row(
            Text(name),  # brackets in a name are no markup
            f"{tally.turns:,}",
            f"{tally.prompt_tokens:,}",
            _number(tally.cached_tokens),
            _number(tally.prefilled_tokens),
            _share(tally.hit_rate),
            f"{tally.breaks:,}",
            f"{tally.lost_tokens:,}",
        )
    return table


def _conversations(conversations: Sequence[Conversation]) -> Table:
    windows = any(each.window for each in conversations)
    filled = ("window", "turns left") if windows else ()
    table = _table("conversation", "turns", "prompt", "a turn", *filled, "hit", "breaks", "lost")
    # The largest say most.
    largest = sorted(conversations, key=lambda each: -each.prompt_tokens)
    for each in largest[:_MOST_CONVERSATIONS]:
        left = _number(each.turns_left)
        table.add_row(
            Text(each.name),
            f"{each.turns:,}",
            _number(each.newest_prompt_tokens),
            _number(each.growth_per_turn, "+,.0f"),
            *((_share(each.window_share), left) if windows else ()),
            _share(each.hit_rate),
            f"{each.breaks:,}",
            f"{each.lost_tokens:,}",
        )
    return table


def _below(conversations: Sequence[Conversation]) -> Iterator[Text]:
    """How many are not shown, and of what all prompts consist, the largest part first."""
    if len(conversations) > _MOST_CONVERSATIONS:
        yield Text(f"and {len(conversations) - _MOST_CONVERSATIONS:,} smaller ones")
    sums = {
        name: sum(each.growth.get(part, 0) for each in conversations)
        for part, name in _PARTS.items()
    }
    whole = sum(sums.values())
    if whole > 0:
        shares = sorted(sums.items(), key=lambda item: -item[1])
        said = ", ".join(f"{name} {tokens / whole:.0%}" for name, tokens in shares if tokens)
        yield Text(f"prompts consist of: {said}")


def _losses(losses: Sequence[PrefixBroken | CacheMissed]) -> Table:
    """Breaks and misses by their cause, the costliest first."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("cause", no_wrap=True)
    table.add_column("times", justify="right")
    table.add_column("lost", justify="right")
    table.add_column("what it is", overflow="fold")
    groups: dict[tuple[type, str], list[PrefixBroken | CacheMissed]] = {}
    for loss in losses:
        groups.setdefault((type(loss), loss.cause), []).append(loss)
    for (_, cause), group in sorted(groups.items(), key=lambda item: -sum(map(_lost, item[1]))):
        told = Text(CAUSES.get(cause, cause.replace("_", " ")))
        newest = group[-1]
        if isinstance(newest, PrefixBroken):
            told.append(f" Last: {_place(newest)}.", "dim")
        lost = sum(map(_lost, group))
        table.add_row(Text(cause, style="red"), f"{len(group):,}", f"{lost:,}", told)
    return table


def _place(broken: PrefixBroken) -> str:
    """Where a prefix broke, counted as the messages were handed to the model."""
    if broken.cause.startswith("message"):  # the cause says what, and the index where
        return f"message {broken.index}"
    return broken.detail or f"from message {broken.index} on"


def _lost(loss: PrefixBroken | CacheMissed) -> int:
    if isinstance(loss, PrefixBroken):
        return loss.lost_tokens
    return loss.expected_tokens - loss.cached_tokens


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _number(value: float | None, form: str = ",") -> str:
    return "-" if value is None else format(value, form)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
