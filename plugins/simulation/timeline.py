"""The time line of a simulation as SVG: one band for each kind of level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ganeti_steward.allocators.overview.bars import LIGHT
from ganeti_steward.plugins.simulation.results import Levels, Results

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
_HEAD: Final = 56
_FOOT: Final = 34
_STYLE: Final = f"text{{font:13px sans-serif;fill:{LIGHT.text}}}.small{{fill:{LIGHT.muted}}}"


def svg(results: Results) -> str:
    """The picture; the same results always give the same text."""
    height = _HEAD + len(_BANDS) * (_BAND + _GAP) + _FOOT
    title = (
        f"{results.assumed.days:g} days of {results.nodes} nodes and {results.instances} instances"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" '
        f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f'<style>{_STYLE}</style><rect width="{_WIDTH}" height="{height}" fill="{LIGHT.ground}"/>',
        f'<text x="12" y="26" style="font-size:18px;font-weight:bold">{title}</text>',
        f'<text class="small" x="12" y="46">seed {results.assumed.seed}, availability '
        f"{100 * results.availability:.4f} %</text>",
    ]
    for number, field in enumerate(_BANDS):
        parts += _band(_HEAD + number * (_BAND + _GAP) + _GAP, field, results.spans)
    parts += _days(height - _FOOT + 16, results.assumed.days)
    return "\n".join([*parts, "</svg>\n"])


def _band(top: int, field: str, spans: Sequence[Levels]) -> Iterator[str]:
    heading, colour = _BANDS[field]
    values = [getattr(one, field) for one in spans]
    highest = max(values, default=0)
    bottom = top + _BAND
    yield f'<text x="{_LEFT}" y="{top - 7}">{heading}, at most {highest}</text>'
    yield f'<path d="M{_LEFT} {bottom}H{_WIDTH - 12}" stroke="{LIGHT.line}"/>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{top + 9}" text-anchor="end">{highest}</text>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{bottom}" text-anchor="end">0</text>'
    if highest:
        yield f'<path d="{_area(values, highest, bottom)}" fill="{colour}"/>'


def _area(values: Sequence[int], highest: int, bottom: int) -> str:
    """Steps from one part of the time to the next."""
    step = (_WIDTH - 12 - _LEFT) / len(values)
    path = [f"M{_LEFT} {bottom}"]
    for at, value in enumerate(values):
        path.append(f"V{bottom - _BAND * value / highest:.4g}H{_LEFT + step * (at + 1):.5g}")
    return "".join([*path, f"V{bottom}Z"])


def _days(y: int, days: float) -> Iterator[str]:
    for part in range(5):
        x = _LEFT + (_WIDTH - 12 - _LEFT) * part / 4
        anchor = {0: "start", 4: "end"}.get(part, "middle")
        day = f"day {days * part / 4:.4g}"
        yield f'<text class="small" x="{x:.5g}" y="{y}" text-anchor="{anchor}">{day}</text>'
