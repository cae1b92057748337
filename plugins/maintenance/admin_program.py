"""Runs a program of the administrator's that the section ``[maintd]`` names by its path."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.errors import reason_of
from ganeti_steward.core.process.following import ending
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.supervisor import supervisor_program
from ganeti_steward.core.process.trusted_program import Forbidden, opened_program

#: Seconds the program may take; all it has started is ended after them.
TIME_LIMIT: Final = 30.0
#: Bytes of its output, which is dropped.
_LONGEST: Final = 2**20
#: Characters of what it prints on standard error that are quoted.
_QUOTED: Final = 500


def fault_of(command: str, time_limit: float, given: bytes = b"") -> str:
    """Why the program failed, as the end of a sentence; empty when it did not.

    It runs without a shell and without arguments and reads ``given``; ``time_limit``: seconds.
    """
    try:
        with opened_program(command) as program:
            ended = run_supervised(
                [command],
                time_limit,
                executable=program,
                given=given,
                output_limit=_LONGEST,
                start=supervisor_program,
            )
    except Forbidden as err:
        return f"is not run: {err}"
    except OSError as err:
        return f"cannot be run: {reason_of(err)}"
    if ended.fault:
        return f"was {ended.fault}"
    if ended.status == 0:
        return ""
    printed = " ".join(ended.errors[:_QUOTED].decode(errors="replace").split())
    return f"{ending(ended.status)}{': ' * bool(printed)}{printed}"
