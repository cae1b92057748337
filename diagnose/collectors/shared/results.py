"""The check results of one source, from its faults and unknowns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any, NamedTuple

from ganeti_steward.core.model import finding
from ganeti_steward.diagnose.collectors.shared.reading import located_reason
from ganeti_steward.diagnose.model.machine import Machine

_Hook = Callable[[Any, Machine], Iterator[finding.CheckResult]]


class Fault(NamedTuple):
    """One thing that is wrong, and what is to be done about it."""

    status: str
    text: str
    """the same words as long as it is the same fault: no figures, no times"""
    physical_volumes: tuple[str, ...] = ()
    """those of LVM that fail with it, as ``pvs`` names them, sorted; not kept of suspect ones"""


class Examined(NamedTuple):
    """What is known about one thing after all checks of it."""

    faults: list[Fault]
    unknowns: list[str]
    """reasons, each the end of a sentence"""


def check_results(
    source: str, faults: Iterable[Fault], unknowns: Iterable[str] = (), command: str = ""
) -> Iterator[finding.CheckResult]:
    """A finding for each fault and one Unknown for all unknowns; Ok when there is neither.

    Both may be reported for one source: the findings count, and what was known before of
    the part that could not be seen stays so too.  Faults whose status is Ok are those the
    admin wants nothing done about.
    """
    wrong = sorted({fault for fault in faults if fault.status != finding.OK})
    for fault in wrong:
        repair = command if fault.status == finding.LIVE_REPAIR else ""
        yield finding.Finding(source, fault.status, repair, _details(fault))
    reasons = sorted(set(unknowns))
    if reasons:
        yield finding.Unknown(source, "; ".join(reasons))
    elif not wrong:
        yield finding.Finding(source, finding.OK)


def unknown_if_unreadable(source: str) -> Callable[[_Hook], _Hook]:
    """Make a hook end with an Unknown of the source where it raises OSError, ValueError."""

    def decorate(diagnose: _Hook) -> _Hook:
        @wraps(diagnose)
        def hook(self: Any, machine: Machine) -> Iterator[finding.CheckResult]:
            try:
                yield from diagnose(self, machine)
            except (OSError, ValueError) as err:
                yield finding.Unknown(source, located_reason(err))

        return hook

    return decorate


def _details(fault: Fault) -> dict[str, Any]:
    if fault.status == finding.SUSPECT or not fault.physical_volumes:
        return {"faults": [fault.text]}
    return {"faults": [fault.text], finding.PHYSICAL_VOLUMES: list(fault.physical_volumes)}


def above(value: float, limit: float, margin: float) -> bool | None:
    """Whether a value has reached a limit; None when it is too close below it to decide.

    An undecided value leaves the earlier finding in effect.  So a value that swings about
    the limit does not make a new finding with each swing.
    """
    if value >= limit:
        return True
    return None if value > limit - margin else False


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns of the shell fits."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
