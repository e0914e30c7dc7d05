"""May the head stay as it was first sent, although the agent sends it in another form?"""

from __future__ import annotations

from collections.abc import Mapping

from kvagent.entry import Head
from kvagent.events import Cause
from kvagent.head import HeadView
from kvagent.stages.spared import spared
from kvagent.stages.turn import Edit, Turn


def pin_head(turn: Turn) -> None:
    """Replay the first form of tools and system messages; tell volatile values in notes."""
    old = turn.past_head
    if old is None:
        _begin(turn)
    elif turn.view.meanings == old.meanings:
        _hold(turn, old)
    else:
        _follow(turn, old)


def _begin(turn: Turn) -> None:
    """A new conversation: volatile text gets a placeholder, so that all share one head."""
    view = turn.view
    hidden = _hidden(turn)
    turn.head = view.as_sent(hidden)
    _tell(turn, hidden)
    if hidden:
        turn.edits.append(Edit("pin_head", "volatile_text", 0, count=len(hidden)))


def _hold(turn: Turn, old: Head) -> None:
    """The same system messages, volatile text apart."""
    view = turn.view
    tools, forms = _tools(view, old)
    changed = frozenset(
        place for place, value in enumerate(view.values) if turn.past_told.get(place) != value
    )
    if changed and (turn.policy.mode == "safe" or turn.note_bearer is None):
        turn.head = Head(view.raws, tools, view.meanings, forms, view.options)
        turn.told = dict(enumerate(view.values))
        return
    if old.tools == tools and old.options == view.options:
        turn.head = old
    else:
        turn.head = Head(old.system, tools, old.meanings, forms, view.options, old.hidden)
    turn.told = turn.past_told
    if changed:
        slots = turn.tree.slots(view.skeleton, view.values)
        turn.tree.mark_changing(view.skeleton, slots, changed)
        _tell(turn, changed)
        turn.edits.append(_edit(turn, "volatile_text", len(changed)))
    elif view.system(old.hidden) != old.system:
        # Where nothing volatile is left in the text, the agent wrote the same text otherwise.
        plain = len(old.hidden) == len(view.values)
        turn.edits.append(_edit(turn, "system_reserialised" if plain else "volatile_text", 1))
    if view.tools is not None and view.tools != tools:
        same = forms is old.tool_forms
        cause: Cause = tools_cause(view, old) if same else "tools_reordered"
        turn.edits.append(_edit(turn, cause, len(forms)))


def _follow(turn: Turn, old: Head) -> None:
    """The instructions changed: the agent's head wins, what stays the same goes first."""
    view = turn.view
    hidden = _hidden(turn)
    sent = view.system(hidden)
    if turn.policy.mode == "full":
        order = sorted(range(len(sent)), key=lambda at: view.meanings[at] not in old.meanings)
        sent = tuple(sent[at] for at in order)
    tools, forms = _tools(view, old)
    turn.head = Head(sent, tools, view.meanings, forms, view.options, hidden)
    _tell(turn, hidden)


def _hidden(turn: Turn) -> frozenset[int]:
    """The places that get a placeholder when a head is sent for the first time."""
    view = turn.view
    if not view.places or turn.policy.mode == "safe" or turn.note_bearer is None:
        return frozenset()
    slots = turn.tree.slots(view.skeleton, view.values)
    differing = frozenset(
        place for place, value in enumerate(view.values) if value != slots.first[place]
    )
    turn.tree.mark_changing(view.skeleton, slots, differing, apart=True)
    at_sight = frozenset(number for number, place in enumerate(view.places) if place.at_sight)
    return at_sight | slots.changing


def _tell(turn: Turn, places: frozenset[int]) -> None:
    """What is taken out of the head arrives in a note."""
    turn.told = dict(enumerate(turn.view.values))
    turn.notes += turn.view.notes(places)


def _tools(view: HeadView, old: Head) -> tuple[bytes | None, Mapping[bytes, bytes]]:
    """The tools in their first form and order, new ones behind those that were known."""
    if view.tools is None:
        return None, view.tool_forms
    if view.tool_forms.keys() == old.tool_forms.keys():
        return old.tools if old.tools is not None else view.tools, old.tool_forms
    known = {name: form for name, form in old.tool_forms.items() if name in view.tool_forms}
    forms = {**known, **{n: form for n, form in view.tool_forms.items() if n not in known}}
    return b"[" + b",".join(forms.values()) + b"]", forms


def tools_cause(view: HeadView, old: Head) -> Cause:
    """In what the tools of two heads differ."""
    if view.tool_forms.keys() != old.tool_forms.keys():
        return "tools_changed"
    if all(view.tool_forms[name] == form for name, form in old.tool_forms.items()):
        return "tools_reordered"
    return "schema_key_order"


def _edit(turn: Turn, cause: Cause, count: int) -> Edit:
    return Edit("pin_head", cause, 0, count=count, saved_tokens=spared(turn))
