"""For how long what should move has not moved: figures of earlier runs, kept from run to run.

The age is that of the kernel's clock since the start: it cannot be set, and it does not jump when
the time of day does.  A single long gap between two runs is no proof, because the machine may have
slept in it: so the number of runs that saw the same figure is known as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.diagnose.collectors.shared.increases import since_start
from ganeti_steward.diagnose.model.machine import Machine

#: Runs that have to see the same figure.
_RUNS: Final = 3


class _Mark(NamedTuple):
    """A figure, and since when it has been the same."""

    figure: str
    uptime: float
    runs: int
    """how many in a row have seen it"""


def standing_still(
    machine: Machine, name: str, figures: Mapping[str, str], after: float, *, complete: bool
) -> frozenset[str]:
    """The keys whose figure has been the same for ``after`` seconds, in three runs or more.

    ``figures``: of all that should move now; what is not in it is forgotten, and begins again when
    it comes back, unless not all that moves could be seen (``complete``).  ``name``: under which
    they are kept.  Raises OSError, ValueError where the time since the start is not known.
    """
    raw = machine.recalled(name)
    if not (figures or raw):
        return frozenset()
    try:
        boot, uptime = since_start(machine)
    except FileNotFoundError:
        return frozenset()
    marks = _marks(raw, boot)
    new = {key: _mark(marks.get(key), figure, uptime) for key, figure in sorted(figures.items())}
    kept = new if complete else marks | new
    content = canonical({"boot": boot, "marks": {key: list(one) for key, one in kept.items()}})
    if content != raw:
        # Without it later runs only know less.
        with suppress(OSError):
            machine.remember(name, content)
    still = (key for key, one in new.items() if one.runs >= _RUNS and uptime - one.uptime >= after)
    return frozenset(still)


def _mark(before: _Mark | None, figure: str, uptime: float) -> _Mark:
    if before is None or before.figure != figure:
        return _Mark(figure, uptime, 1)
    return before._replace(runs=min(before.runs + 1, _RUNS))


def _marks(raw: bytes, boot: str) -> dict[str, _Mark]:
    """What was kept since the node was started; none of another form."""
    try:
        given: Any = load_json(raw) if raw else {}
        if not isinstance(given, dict) or given.get("boot") != boot:
            return {}
        return {
            key: _Mark(str(figure), float(uptime), int(runs))
            for key, (figure, uptime, runs) in given["marks"].items()
        }
    except (ValueError, ArithmeticError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
