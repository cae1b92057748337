"""Jobs that only read something: they are waited for, within a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import ERROR, JobState
from ganeti_steward.core.model.opcodes import Job

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
