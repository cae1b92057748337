"""The score of a node group against what is copied: one point for each move of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ganeti_steward.core.json_reader import counted

#: Pixels: of one curve with its heading and axes, and where its area begins and ends.
HEIGHT: Final = 250
_TOP: Final = 46
_BOTTOM: Final = 214
_LEFT: Final = 90
_RIGHT: Final = 1140

STYLE: Final = (
    ".curve{fill:none;stroke:var(--used);stroke-width:2}.axis{fill:none;stroke:var(--line)}"
    ".bound{fill:none;stroke:var(--muted);stroke-dasharray:5 4}.move{fill:var(--used)}"
    ".chosen{fill:var(--planned)}"
)


class Point(NamedTuple):
    """The plan after some of its moves."""

    copied: float
    """GiB"""
    score: float


class Curve(NamedTuple):
    """One node group."""

    name: str
    before: float
    """the score without any move"""
    points: tuple[Point, ...]
    """after each move; the last one is what the plan has chosen"""
    bound: float
    """no placement of these instances has a lower score"""


def shapes(curve: Curve, top: int) -> Iterator[str]:
    """The SVG shapes, below ``top``; the caller escapes the name."""
    places = [Point(0, curve.before), *curve.points]
    scale = _Scale(curve, top)
    path = " ".join(f"{scale.x(one.copied):.5g},{scale.y(one.score):.5g}" for one in places)
    left, bottom, low = _LEFT, top + _BOTTOM, scale.y(curve.bound)
    yield f'<path class="axis" d="M{left} {top + _TOP}V{bottom}H{_RIGHT}"/>'
    yield f'<path class="bound" d="M{left} {low:.5g}H{_RIGHT}"/>'
    middle = (left + _RIGHT) / 2
    yield _label(middle, bottom + 18, f"dashed: no plan gets below {curve.bound:.4f}", "middle")
    yield f'<polyline class="curve" points="{path}"/>'
    for number, one in enumerate(places):
        words = f"{counted(number, 'move')}: score {one.score:.4f}, {one.copied:.1f} GiB copied"
        kind, radius = ("chosen", 7) if number + 1 == len(places) else ("move", 3)
        at = f'cx="{scale.x(one.copied):.5g}" cy="{scale.y(one.score):.5g}"'
        yield f'<circle class="{kind}" {at} r="{radius}"><title>{words}</title></circle>'
    yield _label(left - 8, scale.y(scale.high) + 4, f"{scale.high:.4f}", "end")
    yield _label(left - 8, bottom, f"{scale.low:.4f}", "end")
    yield _label(left, bottom + 18, "0 GiB copied", "start")
    yield _label(_RIGHT, bottom + 18, f"{scale.copied:.1f} GiB", "end")


def chosen(curve: Curve) -> str:
    """The chosen point in words."""
    last, moves = curve.points[-1], counted(len(curve.points), "move")
    chosen = f"{last.score:.4f} chosen: {moves}, {last.copied:.1f} GiB copied"
    return f"score {curve.before:.4f} now, {chosen}"


class _Scale:
    """From GiB and score to pixels."""

    def __init__(self, curve: Curve, top: int) -> None:
        scores = [curve.before, curve.bound, *(one.score for one in curve.points)]
        self.low, self.high, self._top = min(scores), max(scores), top
        self.copied = max(one.copied for one in curve.points)

    def x(self, copied: float) -> float:
        return _LEFT + (_RIGHT - _LEFT - 20) * copied / (self.copied or 1)

    def y(self, score: float) -> float:
        share = (score - self.low) / ((self.high - self.low) or 1)
        return self._top + _BOTTOM - (_BOTTOM - _TOP) * share


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="small" x="{x}" y="{y:.5g}" text-anchor="{anchor}">{text}</text>'
