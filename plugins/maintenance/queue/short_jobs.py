"""Jobs that only read something: they are waited for, within a round; and checks of disks.

Of Ganeti's own checks only the data of instances show a connection that is lost:
``OP_GROUP_VERIFY_DISKS`` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import ERROR, JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.model.disks import LOST_CONNECTION, DiskHealth

#: Seconds until the jobs have to have ended: one that waits for locks may take hours.
LIMIT: Final = 20.0
_STEP: Final = 0.2


def run_short(
    luxi: Luxi,
    jobs: Sequence[Job],
    trails: Sequence[Sequence[tuple[str, str]]],
    sleep: Callable[[float], None],
) -> list[JobState]:
    """Submit jobs and wait for all of them; those that take too long are cancelled.

    ``trails``: sources and texts for the reason trail of each.  A job that luxid does not take has
    number 0 and the reason as its error.  Raises StewardError.
    """
    answers = luxi.submit_with_trails(jobs, trails)
    numbers = [number for one in answers for number in one.numbers]
    waited = 0.0
    while True:
        states = {one.number: one for one in luxi.states(numbers)}
        late = [number for number, one in states.items() if not one.ended]
        if not late or waited >= LIMIT:
            break
        sleep(_STEP)
        waited += _STEP
    for number in late:
        with suppress(StewardError):
            luxi.cancel(number)
    return [
        states[one.numbers[0]] if one.numbers else JobState(0, ERROR, one.error) for one in answers
    ]


QUERY_DATA: Final = "OP_INSTANCE_QUERY_DATA"

#: The step of a task that checks disks.
CHECK_DISKS: Final = "check-disks"

#: Ganeti's words for the state of a side's own disk.
_GOOD: Final = 1
_FAULTY: Final = 4


def check_job(names: Sequence[str]) -> Job:
    """The job that checks the disks of these instances."""
    return [
        {
            "OP_ID": QUERY_DATA,
            "instances": list(names),
            "static": False,
            "use_locking": False,
        }
    ]


def read_check(results: Sequence[Any], at: int) -> dict[str, DiskHealth]:
    """Name -> health of the disks of each drbd instance in the result of such a job.

    ``at``: when it was submitted, ns since the epoch.  What is not in Ganeti's form is left out,
    and so is an instance whose primary node was offline when the job ran: nothing was read there.
    """
    found = {}
    for result in results:
        for name, data in result.items() if isinstance(result, dict) else ():
            try:
                if data["run_state"] is not None:
                    found[name] = _health(data, at)
            except (IndexError, KeyError, TypeError):
                continue
    return found


def _health(data: Mapping[str, Any], at: int) -> DiskHealth:
    faults, syncing, good, lost = [], False, True, set()
    percents, left, minors = list[float](), list[int](), list[tuple[str, int]]()
    for disk in data["disks"]:
        if disk["dev_type"] != "drbd":
            continue
        # Both sides of a connection that is lost report it.
        sides = ((data["pnode"], disk["pstatus"]), (data["snodes"][0], disk["sstatus"]))
        faults += [f"{disk['iv_name']} {fault}" for fault in _faults(sides)]
        syncing = syncing or any(status and status[3] is not None for _, status in sides)
        seen = [(node, status) for node, status in sides if status]
        percents += [one[3] for _, one in seen if _is_number(one[3])][:1]
        left += [int(one[4]) for _, one in seen if _is_number(one[4])]
        minors += [(node, int(one[2])) for node, one in seen if _is_number(one[2])]
        good = good and bool(disk["pstatus"]) and disk["pstatus"][6] == _GOOD
        lost |= {node for node, status in sides if status and status[6] == _FAULTY}
    nodes = (data["pnode"], *data["snodes"])
    return DiskHealth(
        at,
        tuple(faults),
        syncing,
        good,
        tuple(sorted(lost)),
        nodes,
        percents=tuple(percents),
        seconds_left=max(left, default=0),
        minors=tuple(minors),
    )


def _is_number(value: object) -> bool:
    """A finite one of a size that a percentage, a time or a minor can have."""
    return type(value) in (int, float) and 0 <= value < 2**31  # type: ignore[operator]


def _faults(sides: Sequence[tuple[str, Sequence[Any] | None]]) -> Iterator[str]:
    """What is wrong with one disk: of each side its own disk, or else the connection."""
    bad = [
        f"is {'not active' if status is None else 'faulty'} on {node}"
        for node, status in sides
        if status is None or status[6] == _FAULTY
    ]
    yield from bad
    if not bad and any(status and status[5] and status[3] is None for _, status in sides):
        yield LOST_CONNECTION
