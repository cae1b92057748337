"""The colours of pictures and pages, and bars: one for now, a second one for later below it.

Bars are SVG; positions are shares of the width.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.allocators.overview.amounts import Amount


class Palette(NamedTuple):
    """One set of colours, each as ``#rrggbb``."""

    ground: str
    """the background"""
    panel: str
    """the background of a part of the page"""
    text: str
    muted: str
    """text of less weight"""
    link: str
    line: str
    """lines between parts"""
    track: str
    """the part of a bar that is free"""
    used: str
    planned: str
    """the part in use when the planned moves are done"""
    reserved: str
    """the stripes of what is reserved"""
    bad: str
    """text and bars of what is wrong"""
    warn: str
    good: str


LIGHT: Final = Palette(
    ground="#ffffff",
    panel="#f4f6f8",
    text="#1a1f24",
    muted="#4d5862",
    link="#0b57a4",
    line="#c9d1d9",
    track="#e1e6eb",
    used="#2a6fb0",
    planned="#0f766e",
    reserved="#7a5a00",
    bad="#b3261e",
    warn="#7a5200",
    good="#1a6b34",
)

DARK: Final = Palette(
    ground="#12161b",
    panel="#1b2129",
    text="#e8edf2",
    muted="#a9b4bf",
    link="#7db7f5",
    line="#3a444f",
    track="#2b343e",
    used="#62a8ea",
    planned="#4fc1b0",
    reserved="#e0b84c",
    bad="#ff8a80",
    warn="#f0c060",
    good="#7ad391",
)


def variables(palette: Palette) -> str:
    """The colours as variables of a style sheet: ``--used:#2a6fb0;...``."""
    return "".join(f"--{name}:{value};" for name, value in palette._asdict().items())


#: Pixels: the height of each of the two bars, the gap between them, and both together.
BAR: Final = 7
GAP: Final = 2
PAIR: Final = 2 * BAR + GAP

#: The id of the stripes; each document has them once (`STRIPES`).
_STRIPES_ID: Final = "stripes"

#: What draws the reserve; belongs into a ``<defs>`` of the document.
STRIPES: Final = (
    f'<pattern id="{_STRIPES_ID}" width="4" height="4" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="stripe" width="2" height="4"/></pattern>'
)

#: How the classes of the shapes look; the colours are variables (`palette.variables`).
STYLE: Final = (
    ".track{fill:var(--track)}.used{fill:var(--used)}.planned{fill:var(--planned)}"
    ".stripe{fill:var(--reserved)}.over{fill:var(--bad)}"
    f".reserved{{fill:url(#{_STRIPES_ID})}}.unknown{{fill:none;stroke:var(--muted);"
    "stroke-dasharray:3 3}"
)


def pair(now: Amount, after: Amount | None = None) -> str:
    """The shapes of both bars, `PAIR` high together; a single one where nothing is to change."""
    if after in (None, now) or not (now.total or after.total):
        return _bar(now, "used", 0, PAIR)
    return _bar(now, "used", 0, BAR) + _bar(after, "planned", BAR + GAP, BAR)


def _bar(amount: Amount, kind: str, top: int, height: int) -> str:
    if not amount.total:
        return _rect("unknown", 0, 100, top, height)
    used = min(100 * max(amount.used, 0) / amount.total, 100)
    reserved = min(100 * amount.reserved / amount.total, 100 - used)
    parts = [_rect("track", 0, 100, top, height), _rect(kind, 0, used, top, height)]
    if reserved:
        parts.append(_rect("reserved", used, reserved, top, height))
    if amount.fails:
        parts.append(_rect("over", 97, 3, top, height))
    return "".join(parts)


def _rect(kind: str, left: float, width: float, top: int, height: int) -> str:
    return (
        f'<rect class="{kind}" x="{left:.4g}%" y="{top}" width="{width:.4g}%" height="{height}"/>'
    )
