"""The time line of a simulation as SVG: one band for each kind of level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from ganeti_steward.allocators.overview.bars import LIGHT
from ganeti_steward.core.json_reader import writable
from ganeti_steward.plugins.simulation.results import Results

#: Field of `Levels` -> heading and colour of its band.
_BANDS: Final = {
    "ill": ("nodes that report a fault", LIGHT.warn),
    "repair": ("nodes under repair by the daemon", LIGHT.used),
    "out": ("nodes that do not run", LIGHT.reserved),
    "down": ("instances down", LIGHT.bad),
}

#: Pixels: the picture, its margin on the left, a band, and what lies above each and the first.
_WIDTH: Final = 960
_LEFT: Final = 60
_BAND: Final = 80
_GAP: Final = 34
_HEAD: Final = 78
_FOOT: Final = 34
_STYLE: Final = f"text{{font:13px sans-serif;fill:{LIGHT.text}}}.small{{fill:{LIGHT.muted}}}"


class Side(NamedTuple):
    """One configuration, and what it led to."""

    name: str
    """of its file; empty where there is one side only"""
    mode: str
    results: Results


def svg(sides: Sequence[Side], cluster: str = "", date: str = "") -> str:
    """The picture, all sides on one scale; the same arguments always give the same text.

    ``cluster``: its name, or empty; ``date``: when it was drawn.
    """
    height, width = _HEAD + len(_BANDS) * (_BAND + _GAP) + _FOOT, _WIDTH * len(sides)
    title = _text(_title(sides))
    where = ", ".join(filter(None, (cluster and f"cluster {cluster}", date)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'style="max-width:100%;height:auto">',
        f'<style>{_STYLE}</style><rect width="{width}" height="{height}" fill="{LIGHT.ground}"/>',
        f'<text x="12" y="26" style="font-size:18px;font-weight:bold">{title}</text>',
        f'<text class="small" x="12" y="46">{_text(where)}</text>',
    ]
    for at, side in enumerate(sides):
        parts += [f'<g transform="translate({_WIDTH * at} 0)">', *_side(side, sides), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _title(sides: Sequence[Side]) -> str:
    results = sides[0].results
    modes = " beside ".join(dict.fromkeys(side.mode for side in sides))
    return (
        f"{results.assumed.days:g} days of {results.nodes} nodes and {results.instances} "
        f"instances, mode {modes}, seed {results.assumed.seed}"
    )


def _side(side: Side, sides: Sequence[Side]) -> Iterator[str]:
    found = side.results
    facts = (
        f"mode {side.mode}: availability {100 * found.availability:.4f} %, instances down "
        f"{sum(found.downtime.values()):.1f} h, {sum(found.moves.values())} moves, "
        f"{found.copied:.0f} GiB copied"
    )
    text = f"{side.name}, {facts}" if side.name else facts
    yield f'<text x="12" y="68">{_text(text)}</text>'
    for number, field in enumerate(_BANDS):
        highest = max(getattr(one, field) for each in sides for one in each.results.spans)
        top = _HEAD + number * (_BAND + _GAP) + _GAP
        yield from _band(top, field, [getattr(one, field) for one in found.spans], highest)
    yield from _days(_HEAD + len(_BANDS) * (_BAND + _GAP) + 16, found.assumed.days)


def _band(top: int, field: str, values: Sequence[int], scale: int) -> Iterator[str]:
    """``scale``: the value at the upper end."""
    heading, colour = _BANDS[field]
    bottom = top + _BAND
    yield f'<text x="{_LEFT}" y="{top - 7}">{heading}, at most {max(values, default=0)}</text>'
    yield f'<path d="M{_LEFT} {bottom}H{_WIDTH - 12}" stroke="{LIGHT.line}"/>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{top + 9}" text-anchor="end">{scale}</text>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{bottom}" text-anchor="end">0</text>'
    if any(values):
        yield f'<path d="{_area(values, scale, bottom)}" fill="{colour}"/>'


def _area(values: Sequence[int], highest: int, bottom: int) -> str:
    """Steps from one part of the time to the next."""
    step = (_WIDTH - 12 - _LEFT) / len(values)
    path = [f"M{_LEFT} {bottom}"]
    for at, value in enumerate(values):
        path.append(f"V{bottom - _BAND * value / highest:.4g}H{_LEFT + step * (at + 1):.5g}")
    return "".join([*path, f"V{bottom}Z"])


def _text(text: str) -> str:
    return escape(writable(text))


def _days(y: int, days: float) -> Iterator[str]:
    for part in range(5):
        x = _LEFT + (_WIDTH - 12 - _LEFT) * part / 4
        anchor = {0: "start", 4: "end"}.get(part, "middle")
        day = f"day {days * part / 4:.4g}"
        yield f'<text class="small" x="{x:.5g}" y="{y}" text-anchor="{anchor}">{day}</text>'
