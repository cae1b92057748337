"""The figures of a simulation as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ganeti_steward.core.commands.tables import table
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.maintenance.simulation.assumptions import HOUR
from ganeti_steward.plugins.maintenance.simulation.results import Results

#: States that are listed -> the words for them.
_ENDS: Final = {
    "completed": "completed",
    "failed": "failed",
    "canceled": "canceled",
    f"{FORGOTTEN} while noted": "over before anything was done",
}


def lines(found: Results, settings: Maintd) -> Iterator[str]:
    """Everything that is counted; the brakes as a table."""
    yield (
        f"{found.assumed.days:g} days of {found.nodes} nodes and {found.instances} instances, "
        f"seed {found.assumed.seed}, mode {settings.mode}"
    )
    yield from _aligned(dict(_figures(found)))
    yield from (f"a round failed: {fault}" for fault in dict.fromkeys(found.faults))
    if found.brakes:
        rows = [
            (name, str(one.subjects), f"{one.held / HOUR:.1f}")
            for name, one in found.brakes.items()
        ]
        yield ""
        yield table(("Brake", "Held back", "Hours"), rows).rstrip("\n")


def _figures(found: Results) -> Iterator[tuple[str, str]]:
    down = sum(found.downtime.values())
    yield "availability", f"{100 * found.availability:.4f} %, instances were down for {down:.1f} h"
    for cause, hours in found.downtime.items():
        yield f"  {cause}", f"{hours:.1f} h"
    yield "nodes that died", f"{found.deaths}, {found.deaths_in_use} of them with instances"
    yield "moves", f"{_listed(found.moves)}; {found.copied:.0f} GiB copied"
    yield "jobs that failed", str(found.failed_jobs)
    yield "nodes under repair", f"at most {found.most_under_repair} at once"
    ends = {word: found.states.get(state, 0) for state, word in _ENDS.items()}
    yield "incidents", f"{found.incidents}: {_listed(ends)}"
    yield "incidents left", _listed(found.left)
    yield "incidents stuck", str(found.stuck)
    yield "rounds", f"{found.rounds} that could decide something new"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none"


def _aligned(rows: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, rows))
    return (f"{name.ljust(width)}  {text}" for name, text in rows.items())
