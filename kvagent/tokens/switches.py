"""What may a request set for its chat template, and what is worth trying?

Templates name the same switch differently, so each name is tried and the render decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

HISTORY: Mapping[str, bool] = {
    "preserve_thinking": True,
    "clear_thinking": False,
    "truncate_history_thinking": False,
    "drop_thinking": False,
    "keep_past_thinking": True,
    "preserved_thinking": True,
    "include_thinking": True,
    "tools_in_user_message": False,
}
"""Known switches of how a history is rendered, each with the value that keeps it as it was."""

DATES = ("date_string", "current_date", "datetime", "date", "today")
"""Variables that hold the day, in templates or put there by a server."""

_OTHERS = frozenset(
    # What a server gives, and what changes the answer and not only the history: never tried.
    {
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
        *("bos_token", "eos_token", "enable_thinking", "thinking", "reasoning_effort"),
        *("available_tools", "builtin_tools", "citations", "controls", "model_identity"),
        "response_format",
    }
)


def switches(undeclared: Collection[str] | None) -> tuple[Mapping[str, bool], ...]:
    """The switches to try, in groups: where a whole group does nothing, none of it does.

    ``undeclared`` are the template's variables, None if unknown: then the known names are tried.
    """
    if undeclared is None:
        return (HISTORY,)
    known = {name: value for name, value in HISTORY.items() if name in undeclared}
    others = sorted(set(undeclared) - HISTORY.keys() - _OTHERS - set(DATES))
    return known, dict.fromkeys(others, True), dict.fromkeys(others, False)


def dates(undeclared: Collection[str] | None) -> tuple[str, ...]:
    """The variables that may set the day."""
    return tuple(name for name in DATES if undeclared is None or name in undeclared)
