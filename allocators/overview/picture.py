"""A whole picture of a cluster as one SVG document: a row for each group and node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import zip_longest
from typing import Final

from ganeti_steward.allocators.overview.amounts import (
    KINDS,
    Amount,
    Filled,
    Overview,
    absolute,
    change,
    in_words,
)
from ganeti_steward.allocators.overview.bars import LIGHT, PAIR, STRIPES, STYLE, pair, variables
from ganeti_steward.allocators.overview.curve import HEIGHT, Curve, chosen, shapes
from ganeti_steward.allocators.overview.curve import STYLE as CURVE_STYLE
from ganeti_steward.allocators.state.names import short_names
from ganeti_steward.core.errors import StewardError, reason_of

#: Pixels: the picture, the column of names, a bar, and a bar with its number.
_WIDTH: Final = 1180
_NAMES: Final = 220
_BAR: Final = 84
_COLUMN: Final = (_WIDTH - _NAMES) // len(KINDS)
#: Pixels of a row, and of what is above the first one.
_ROW: Final = 24
_HEAD: Final = 92

#: Characters of a name that fit its column.
_NAME: Final = 28

#: What stands before the name of a group, and in no name of a node.
_GROUP: Final = "group "

#: What XML cannot hold, not even escaped.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE: Final = (
    f"svg{{{variables(LIGHT)}}}text{{font:13px sans-serif;fill:var(--text)}}"
    ".title{font-size:18px;font-weight:bold}.group{font-weight:bold}.small{fill:var(--muted)}"
    ".bad{fill:var(--bad)}.absolute{font-size:11px}" + STYLE + CURVE_STYLE
)


def heading(what: str, cluster: str, at: float) -> str:
    """``Balancing of cluster1, 2026-01-07 12:00 UTC``.

    ``cluster``: its name, or empty; ``at``: seconds since the epoch.
    """
    date = datetime.fromtimestamp(at, UTC)
    return f"{what}{cluster and f' of {cluster}'}, {date:%Y-%m-%d %H:%M} UTC"


def svg(overview: Overview, title: str, note: str = "", curves: Sequence[Curve] = ()) -> str:
    """The picture as a document of its own; ``note``: a line below the title.

    ``curves``: drawn below the nodes.
    """
    rows = [*_rows(overview)]
    below = _HEAD + _ROW * len(rows) + 12
    height = below + HEIGHT * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{_text(title)}" '
        f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'style="max-width:100%;height:auto">',
        f"<style>{_STYLE}</style><defs>{STRIPES}</defs>",
        f'<rect width="{_WIDTH}" height="{height}" fill="{LIGHT.ground}"/>',
        f'<text class="title" x="12" y="28">{_text(title)}</text>',
        f'<text class="small" x="12" y="48">{_text(note)}</text>',
        _legend(planned=any(one.after for one, _ in rows)),
        *(_heading(at, kind) for at, kind in enumerate(KINDS)),
        *(_row(_HEAD + _ROW * at, one, name) for at, (one, name) in enumerate(rows)),
        *(_curve(below + HEIGHT * at, one) for at, one in enumerate(curves)),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _curve(top: int, curve: Curve) -> str:
    """With the name of its group and the chosen point above it."""
    title = f"{_GROUP}{_shortened(curve.name, _NAME)}"
    return (
        f'<text class="group" x="12" y="{top + 28}">{_text(title)}'
        f'<tspan class="small" dx="8">{chosen(curve)}</tspan></text>' + "".join(shapes(curve, top))
    )


def _rows(overview: Overview) -> Iterator[tuple[Filled, str]]:
    """Each row with the name it has in the picture."""
    short = short_names([node.name for group in overview for node in group.nodes])
    for group in overview:
        yield group.whole, f"{_GROUP}{group.whole.name}"
        yield from ((node, short[node.name]) for node in group.nodes)


def _legend(*, planned: bool) -> str:
    entries = [("used", "in use"), ("planned", "when the plan is done")][: 2 if planned else 1]
    entries += [("reserved", "reserved for N+1"), ("over", "more than there is")]
    parts, left = [], _NAMES
    for kind, text in entries:
        parts.append(f'<rect class="{kind}" x="{left}" y="55" width="20" height="10"/>')
        parts.append(f'<text class="small" x="{left + 26}" y="64">{text}</text>')
        left += 60 + 7 * len(text)
    return "".join(parts)


def _heading(at: int, kind: str) -> str:
    return f'<text class="group" x="{_NAMES + at * _COLUMN}" y="{_HEAD - 8}">{kind}</text>'


def _row(top: int, row: Filled, name: str) -> str:
    shown, notes = _shortened(name, _NAME), ", ".join(row.notes)
    beside = _shortened(notes, _NAME - len(shown))
    kind = "group" if name.startswith(_GROUP) else "bad" if notes and not beside else "node"
    parts = [
        f'<text class="{kind}" x="12" y="{top + 13}">{_text(shown)}'
        f'<tspan class="bad" dx="8">{_text(beside)}</tspan>'
        f"<title>{_text(': '.join(filter(None, (row.name, notes))))}</title></text>"
    ]
    for at, (resource, now, after) in enumerate(zip_longest(KINDS, row.now, row.after)):
        parts.append(_bars(_NAMES + at * _COLUMN, top, resource, (now, after)))
    return "".join(parts)


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…" if most > 3 else ""


def _bars(left: int, top: int, kind: str, amounts: tuple[Amount, Amount | None]) -> str:
    now, after = amounts
    number = change(now, after)
    failing = any(one is not None and one.fails for one in amounts)
    return (
        f'<svg x="{left}" y="{top}" width="{_BAR}" height="{PAIR}">'
        f"<title>{_text(in_words(kind, now, after))}</title>{pair(now, after)}</svg>"
        f'<text class="{"bad" if failing else "small"}" x="{left + _BAR + 6}" y="{top + 13}">'
        f'{number}<tspan class="absolute" dx="6">{absolute(kind, now, after)}</tspan></text>'
    )


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("�", text))


def write_plot(
    path: str, overview: Overview, title: str, note: str, curves: Sequence[Curve] = ()
) -> None:
    """Write the picture to a file; see `svg`.  Raises StewardError."""
    write_text(path, svg(overview, title, note, curves))


def write_text(path: str, text: str) -> None:
    """Write a file that the user has named; raises StewardError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None
