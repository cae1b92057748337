"""The figures as tables for people and as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bench_run import Series

HEADINGS: Final = (
    "case",
    "nodes",
    "instances",
    "hail CPU s",
    "exponent",
    "Steward CPU s",
    "exponent",
    "ratio",
    "hail MiB",
    "Steward MiB",
    "success",
    "runs",
)
NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One cluster."""

    case: str
    nodes: int
    instances: int
    hail: Series
    steward: Series
    other: str = "hail"
    """the program in hail's place"""

    @property
    def ratio(self) -> float | None:
        hail, steward = self.hail.cpu, self.steward.cpu
        return hail / steward if hail is not None and steward else None

    @property
    def agreed(self) -> bool | None:
        """Whether both say the same; None where one of them has not been heard."""
        if self.hail.success is None or self.steward.success is None:
            return None
        return self.hail.success == self.steward.success


def result_table(rows: Sequence[Row], floor: int) -> list[str]:
    """The main table; ``floor`` (KiB) is the least peak memory that can be seen."""
    cells: list[Sequence[str]] = [HEADINGS]
    notes: list[str] = []
    before: dict[str, Row] = {}
    for row in rows:
        cells.append(_cells(row, before.get(row.case), floor))
        notes += _notes(row)
        before[row.case] = row
    others = {row.case: row.other for row in rows if row.other != "hail"}
    notes[:0] = [f"{case}: {other} is in hail's place" for case, other in others.items()]
    return [*layout(cells), *([""] if notes else []), *notes]


def progress(row: Row) -> str:
    hail, steward = cpu_seconds(row.hail), cpu_seconds(row.steward)
    return f"{row.case}, {row.nodes} nodes: {row.other} {hail}, Steward {steward} (CPU s)"


def _cells(row: Row, before: Row | None, floor: int) -> tuple[str, ...]:
    hail, steward = row.hail, row.steward
    return (
        row.case,
        str(row.nodes),
        str(row.instances),
        cpu_seconds(hail),
        _exponent(row, before, lambda row: row.hail),
        cpu_seconds(steward),
        _exponent(row, before, lambda row: row.steward),
        NONE if row.ratio is None else f"{row.ratio:.3g}",
        _mebibytes(hail, floor),
        _mebibytes(steward, floor),
        _success(row),
        f"{len(hail.runs) or NONE}/{len(steward.runs)}",
    )


def cpu_seconds(series: Series) -> str:
    if series.fault:
        return "failed"
    if series.cpu is None:
        return NONE
    return f"{series.cpu:.3f}" if series.cpu < 10 else f"{series.cpu:.1f}"


def _exponent(row: Row, before: Row | None, series: Callable[[Row], Series]) -> str:
    """The exponent x of n^x from the size before."""
    now, then = series(row).cpu, before and series(before).cpu
    if not before or not now or not then or row.nodes == before.nodes:
        return ""
    exponent = math.log(now / then) / math.log(row.nodes / before.nodes)
    return f"n^{round(exponent, 1) or 0:.1f}"


def _mebibytes(series: Series, floor: int) -> str:
    if series.memory is None:
        return NONE
    return f"{'<=' if series.memory <= floor else ''}{series.memory / 1024:.0f}"


def _success(row: Row) -> str:
    if row.agreed is None:
        return {True: "yes", False: "no", None: NONE}[row.steward.success]
    if row.agreed:
        return "both" if row.steward.success else "neither"
    return "STEWARD ONLY" if row.steward.success else f"{row.other.upper()} ONLY"


def _notes(row: Row) -> Iterator[str]:
    where = f"{row.case} at {row.nodes} nodes"
    for name, series in ((row.other, row.hail), ("Steward", row.steward)):
        if series.fault:
            yield f"{where}: {name} failed: {series.fault}"
        elif series.skipped:
            yield f"{where}: {name} not run: {series.skipped}"


def layout(cells: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table that is also readable as it stands; figures to the right."""
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = []
    for line in cells:
        padded = [
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(padded)} |")
    rule = [f":{'-' * width}-" if c == 0 else f"-{'-' * width}:" for c, width in enumerate(widths)]
    lines.insert(1, f"|{'|'.join(rule)}|")
    return lines


def as_data(row: Row) -> dict[str, Any]:
    return {**asdict(row), "ratio": row.ratio, "agreed": row.agreed}
