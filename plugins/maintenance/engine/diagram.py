"""The drawing of the life of an incident, made from the table of transitions.

``gnt-steward maintd --diagram`` prints it; ``docs/explanation/incidents.svg`` is its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final, NamedTuple

from ganeti_steward.plugins.maintenance.engine.transitions import (
    FORGOTTEN,
    TABLE,
    Event,
    Transition,
)
from ganeti_steward.plugins.model.incident import (
    ACKNOWLEDGED,
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    PENDING,
)

#: Not a state of the table: there is no incident yet; and all states inside the frame.
UNKNOWN: Final = "unknown"
FRAME: Final = "each state in the frame"

#: The states inside the frame; a transition they all have is drawn once, from the frame.
_FRAMED: Final = (NOTED, PENDING, COMPLETED, ACKNOWLEDGED, FAILED)

#: Pixels, as all figures below.
_SIZE: Final = (1190, 575)
_BOX: Final = (130, 40)
_LINE: Final = 15

#: State -> the centre of its box.
_PLACES: Final[Mapping[str, tuple[int, int]]] = {
    NOTED: (215, 250),
    PENDING: (465, 250),
    COMPLETED: (660, 105),
    ACKNOWLEDGED: (880, 105),
    FAILED: (660, 395),
    CANCELED: (550, 535),
    FORGOTTEN: (1110, 250),
}

_FRAME: Final = '<rect x="130" y="35" width="840" height="420" rx="12" class="frame"/>'


class _Route(NamedTuple):
    """How an arrow runs, and where its label stands."""

    path: str
    """as in the attribute ``d`` of an SVG path"""
    label: tuple[int, int]
    """the middle of its first line"""


_ROUTES: Final[Mapping[tuple[str, str], _Route]] = {
    (UNKNOWN, NOTED): _Route("M 24 250 L 146 250", (72, 236)),
    (NOTED, PENDING): _Route("M 280 250 L 396 250", (340, 240)),
    (NOTED, COMPLETED): _Route("M 245 230 Q 300 100 591 100", (440, 148)),
    (PENDING, COMPLETED): _Route("M 500 230 L 620 129", (690, 170)),
    (NOTED, FAILED): _Route("M 245 270 Q 300 400 591 400", (440, 328)),
    (PENDING, FAILED): _Route("M 500 270 L 620 371", (690, 320)),
    (NOTED, FORGOTTEN): _Route("M 205 230 C 210 -55 1110 -55 1110 226", (660, 20)),
    (COMPLETED, ACKNOWLEDGED): _Route("M 725 105 L 811 105", (768, 97)),
    (ACKNOWLEDGED, FORGOTTEN): _Route("M 900 125 Q 930 235 1041 240", (885, 180)),
    (FAILED, ACKNOWLEDGED): _Route("M 700 375 Q 800 270 862 129", (800, 262)),
    (FAILED, FORGOTTEN): _Route("M 725 395 Q 1000 395 1062 273", (860, 372)),
    (FRAME, FORGOTTEN): _Route("M 970 255 L 1041 255", (1000, 284)),
    (FRAME, CANCELED): _Route("M 550 455 L 550 511", (610, 482)),
    (CANCELED, FORGOTTEN): _Route("M 615 535 Q 1110 535 1110 274", (1030, 480)),
}

_STYLE: Final = (
    "text{font:13px sans-serif;text-anchor:middle;fill:#222}"
    ".label{font-size:11.5px;stroke:#fff;stroke-width:4px;paint-order:stroke}"
    ".effect{font-style:italic;fill:#555}"
    "path{fill:none;stroke:#555;stroke-width:1.3;marker-end:url(#head)}"
    ".state{fill:#eef3f8;stroke:#456}.end{fill:#eee;stroke:#777}"
    ".frame{fill:none;stroke:#999;stroke-dasharray:6 4}"
)


def svg() -> str:
    """The drawing as an SVG file; the same table always gives the same text."""
    width, height = _SIZE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        "<title>The life of an incident</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M 0 0 L 8 4 L 0 8 z" '
        'style="fill:#555;stroke:none;marker-end:none"/></marker></defs>',
        f'<rect width="{width}" height="{height}" style="fill:#fff"/>',
        _FRAME,
    ]
    arrows = _arrows()
    parts += [f'<path d="{_ROUTES[ends].path}"/>' for ends in arrows]
    parts += [_box(state, *place) for state, place in _PLACES.items()]
    parts += [line for ends, lines in arrows.items() for line in _label(ends, lines)]
    return "\n".join([*parts, "</svg>", ""])


def table_rows() -> list[tuple[str, str, str, str]]:
    """State, event, next state and effects of each transition, in the table's order."""
    return [
        (state, event.value, found.to, ", ".join(effect.value for effect in found.effects))
        for (state, event), found in TABLE.items()
    ]


def _arrows() -> dict[tuple[str, str], list[tuple[str, bool]]]:
    """(from, to) -> the lines of the label, each with whether it is an effect."""
    common = {(event, to) for event in Event for to in [_common_target(event)] if to is not None}
    found: dict[tuple[str, str], list[tuple[str, bool]]] = {
        (UNKNOWN, NOTED): [("reported", False)],
    }
    for event, to in sorted(common, key=str):
        found[FRAME, to] = [(line, False) for line in _wrapped(event.value)]
    for (state, event), after in TABLE.items():
        if state not in _FRAMED or (event, after.to) not in common:
            found[state, after.to] = _merged(found.get((state, after.to), []), event, after)
    return found


def _common_target(event: Event) -> str | None:
    """Where all states of the frame go with an event; None when they differ."""
    targets = {TABLE[state, event].to if (state, event) in TABLE else "" for state in _FRAMED}
    return targets.pop() or None if len(targets) == 1 else None


def _merged(
    lines: Iterable[tuple[str, bool]], event: Event, after: Transition
) -> list[tuple[str, bool]]:
    """A label with one more event; the effects, which are the same for all, stay at its end."""
    events = [line for line in lines if not line[1]]
    text = f"or {event.value}" if events else event.value
    more = [(line, False) for line in _wrapped(text)]
    return [*events, *more, *((effect.value, True) for effect in after.effects)]


def _wrapped(text: str) -> Iterator[str]:
    """Lines of about 25 characters."""
    line = ""
    for word in text.split():
        if line and len(line) + len(word) > 25:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def _box(state: str, x: int, y: int) -> str:
    width, height = _BOX
    kind = "end" if state == FORGOTTEN else "state"
    return (
        f'<rect x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}" '
        f'rx="8" class="{kind}"/><text x="{x}" y="{y + 5}">{escape(state)}</text>'
    )


def _label(ends: tuple[str, str], lines: Iterable[tuple[str, bool]]) -> Iterator[str]:
    x, y = _ROUTES[ends].label
    for number, (text, effect) in enumerate(lines):
        kind = "label effect" if effect else "label"
        yield f'<text x="{x}" y="{y + _LINE * number}" class="{kind}">{escape(text)}</text>'
