"""What was found in a session, in full: every finding, its texts, the turns, the largest results?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from kvagent.audit.figures import NONE, change, count, several
from kvagent.audit.names import placed
from kvagent.audit.report.page.words import happened, line
from kvagent.audit.report.screen.contrast import contrasted
from kvagent.audit.report.screen.figures import figures
from kvagent.audit.report.screen.groups import cost, heading, spot_place
from kvagent.audit.report.screen.layout import Layout, Part
from kvagent.audit.report.screen.summary import counts, title
from kvagent.audit.rule import Finding, Spot
from kvagent.audit.session import Row, Session
from kvagent.audit.turns import Traced

_SPOTS, _RESULTS, _TURNS, _TRACED = 10, 10, 40, 20
_INDENT = 2
# The name of a tool or place has so many cells at most. On a terminal as wide as most are, what is
# said of a turn is cut if it has so many at least; else it may go on below.
_NAME, _WIDE, _TEXT = 30, 80, 10
# The columns of turns that are left out where there is no room, one after the other.
_SPARE = ("growth", "reported", "cached", "wasted", "prompt")


def detailed(session: Session, layout: Layout) -> list[Text]:
    """All that there is to say."""
    lines = [*title(session, layout), *figures(session, layout)]
    for note in session.notes:
        lines += layout.paragraph(("· ", "dim"), (note, "dim"), indent=2, hanging=4)
    for unread in session.unreadable:
        lines += layout.paragraph(
            ("✗ ", "red"), f"{placed(unread.place)} {unread.why}", indent=2, hanging=4
        )
    lines += [Text(), *counts(session.findings, layout)]
    for finding in session.findings:
        lines += [Text(), *_finding(finding, session, layout)]
    lines += _turns(session, layout)
    lines += _largest(session, layout)
    return lines


def _finding(finding: Finding, session: Session, layout: Layout) -> list[Text]:
    costs = cost(
        finding.rule,
        finding.count,
        finding.tokens,
        exact=session.is_exact,
        kv_bytes=finding.kv_bytes,
    )
    lines = heading(finding.rule, costs, layout)
    lines += layout.paragraph(finding.said, indent=2)
    bare = [spot for spot in finding.spots if not _has_texts(spot)]
    for spot in finding.spots:
        if _has_texts(spot):
            lines += _spot(spot, session, layout)
    if bare:
        told = [_short_place(spot, session) for spot in bare[:_SPOTS]]
        more = finding.count - (len(finding.spots) - len(bare)) - len(told)
        rest = f", … and {more:,} more" if more > 0 else ""
        at = ("also " if len(bare) < len(finding.spots) else "") + "; ".join(told)
        lines += layout.paragraph((f"{at[0].upper()}{at[1:]}{rest}", "dim"), indent=2)
    lines += layout.paragraph(("→ ", "green"), finding.fix, indent=2, hanging=4)
    for row in finding.example.splitlines():
        blanks = 4 + len(row) - len(row.lstrip(" "))
        lines += layout.paragraph((row.lstrip(" "), "cyan"), indent=blanks, hanging=blanks + 2)
    return lines


def _has_texts(spot: Spot) -> bool:
    return spot.contrast is not None or bool(spot.excerpt)


def _spot(spot: Spot, session: Session, layout: Layout) -> list[Text]:
    """A place and its texts."""
    at = spot_place(spot, session)
    if spot.behind:
        at += f" (behind {spot.behind}, which has the cost)"
    elif spot.tokens:
        at += f": {count(spot.tokens, session.is_exact)} tokens"
    lines = layout.paragraph((at, "dim"), indent=2)
    if spot.contrast is not None:
        return lines + contrasted(spot.contrast, layout, indent=4)
    room = layout.width - 4
    return [
        *lines,
        Text("    ").append(layout.begins(spot.excerpt.strip()[: 4 * room], room), "red"),
    ]


def _short_place(spot: Spot, session: Session) -> str:
    parts = [] if spot.place.line is None else [f"line {line(spot.place)}"]
    if session.conversations > 1:
        parts.append(f"conversation {spot.conversation}")
    parts.append(f"turn {spot.turn}")
    if spot.message is not None:
        parts.append(f"message {spot.message}")
    return " ".join(parts)


def _turns(session: Session, layout: Layout) -> list[Text]:
    """The table of turns: those in which something happened, and others here and there."""
    rows: Sequence[Row | Traced] = session.rows or session.traced
    if not rows:
        return []
    titles = _titles(session)
    shown = _chosen(rows)
    table: list[list[Part]] = [[(title, "dim") for title in titles]]
    said: list[tuple[str, str]] = [("", "")]
    before = -1
    for at in shown:
        row = rows[at]
        if at - before > 1 and isinstance(row, Row):
            table.append([("…", "dim"), *[""] * (len(titles) - 1)])
            said.append((f"{at - before - 1:,} more", "dim"))
        table.append([*_cells(row, session, layout)])
        said.append(("; ".join(happened(row)) if isinstance(row, Row) else "", "yellow"))
        before = at
    about = "" if len(shown) == len(rows) else f", {len(shown)} of {len(rows):,}"
    about += "" if session.is_exact else ", in estimated tokens"
    spare = [titles.index(title) for title in _SPARE if title in titles]
    return [
        Text(),
        *layout.paragraph(("Turns", "bold"), about),
        *_with_texts(layout.columns(table, (), indent=_INDENT, spare=spare), table, said, layout),
    ]


def _with_texts(
    lines: Sequence[Text],
    table: Sequence[Sequence[Part]],
    said: Sequence[tuple[str, str]],
    layout: Layout,
) -> Iterator[Text]:
    """What is said of each row, behind its line; below it where there is too little room."""
    room = layout.width - 2 - max(cell_len(each.plain) for each in lines)
    is_cut = layout.width >= _WIDE and room >= _TEXT
    for told, row, (text, style) in zip(lines, table, said, strict=True):
        shown = layout.begins(text, room) if is_cut else layout.letters(text)
        fits = cell_len(shown) <= room
        if not any(row[1:]) and not fits:
            told.rstrip()  # there is nothing in its other columns
            fits = True
        if shown and fits:
            told.append("  ").append(shown, style)
        yield told
        if shown and not fits:
            yield from layout.paragraph((text, style), indent=2 * _INDENT)


def _titles(session: Session) -> list[str]:
    if session.traced:
        return ["line", "prompt", "cached"]
    titles = ["turn", "prompt", "growth", "cached"]
    if session.conversations > 1:
        titles.insert(0, "conversation")
    if session.totals.reported_requests:
        titles.append("reported")
    return [*titles, "wasted"]


def _cells(row: Row | Traced, session: Session, layout: Layout) -> list[str]:
    if isinstance(row, Traced):
        place = layout.name(line(row.request.place), _name_room(layout))
        return [place, count(row.prompt_tokens), count(row.predicted_tokens)]
    cells = [
        f"{row.number:,}",
        count(row.prompt_tokens),
        change(row.growth),
        count(row.predicted_tokens),
    ]
    if session.conversations > 1:
        cells.insert(0, str(row.conversation))
    if session.totals.reported_requests:
        cells.append(count(row.reported.cached_tokens))
    return [*cells, count(row.wasted_tokens) if row.wasted_tokens else ""]


def _name_room(layout: Layout) -> int:
    """How many cells of a line a name has, so that there is room for figures."""
    return min(_NAME, layout.width * 3 // 8)


def _chosen(rows: Sequence[Row | Traced]) -> list[int]:
    """Which rows are shown: the first and the last, those with the most to say, and some between."""
    if len(rows) <= _TURNS:
        return list(range(len(rows)))
    if isinstance(rows[0], Traced):
        return list(range(0, len(rows), -(-len(rows) // _TRACED)))
    chosen = {0, len(rows) - 1}
    special = [at for at, row in enumerate(rows) if isinstance(row, Row) and happened(row)]
    special.sort(key=lambda at: -_weight(rows[at]))
    chosen.update(special[: _TURNS - 10])
    step = max(1, len(rows) // (_TURNS - len(chosen)))
    for at in range(0, len(rows), step):
        if len(chosen) < _TURNS:
            chosen.add(at)
    # To leave out a single one would take as much room.
    chosen.update([at + 1 for at in chosen if at + 2 in chosen])
    return sorted(chosen)


def _weight(row: Row | Traced) -> int:
    return row.wasted_tokens if isinstance(row, Row) else 0


def _largest(session: Session, layout: Layout) -> list[Text]:
    results = session.results[:_RESULTS]
    if not results:
        return []
    room = _name_room(layout)
    rows: list[list[Part]] = []
    for each in results:
        at = "" if each.place.line is None else f"line {line(each.place)}, "
        if session.conversations > 1:
            at += f"conversation {each.conversation}, "
        at += f"turn {each.turn}, message {each.message}"
        rows.append(
            [
                count(each.tokens, session.is_exact),
                layout.name(each.tool or NONE, room),
                (at, "dim"),
            ]
        )
    title = layout.paragraph(
        ("Largest tool results", "bold"), f" of {several(len(session.results), 'result')}"
    )
    if len(session.results) <= _RESULTS:
        title = layout.paragraph(("Tool results, the largest first", "bold"))
    return [Text(), *title, *layout.columns(rows, (1, 2), indent=_INDENT, spare=(1,), wraps=2)]
