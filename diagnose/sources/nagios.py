"""Checks that speak the plugin protocol of Nagios, as sources ``nagios:NAME``.

Such a check reports by its exit status (0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN) and
prints a line of text, ``|``, and figures.  What each status means for the node is set in the
configuration.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, CheckResult, Finding, Unknown
from ganeti_steward.core.process.following import Ended, ending
from ganeti_steward.core.process.program import run_program
from ganeti_steward.core.process.trusted_program import Forbidden, opened_program
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.sources import isolated
from ganeti_steward.diagnose.sources.commands import LADDER
from ganeti_steward.diagnose.sources.isolated import Source

#: What their names begin with.
SOURCE: Final = "nagios"

#: Stands for no status at all.
UNKNOWN: Final = "unknown"

#: By exit status: its name, and the key that holds its meaning.
_STATES: Final = ("ok", "warning", "critical", "unknown")

#: Extra seconds for looking at the check and for ending it.
_AROUND: Final = 0.4

#: Characters of its first line that are used.
_LONGEST: Final = 200

#: Bytes it may print.
_OUTPUT_LIMIT: Final = 2**20


def check_source(name: str, check: Nagios) -> Source:
    """A check as a source; it never takes much longer than its limit."""
    call = partial(_results, name, check)
    return Source(f"{SOURCE}:{name}", call, check.time_limit, around=_AROUND)


def _results(name: str, check: Nagios) -> list[CheckResult]:
    source = f"{SOURCE}:{name}"
    try:
        with opened_program(check.command[0]) as program:
            ended = run_program(
                check.command,
                check.time_limit,
                output_limit=_OUTPUT_LIMIT,
                executable=program,
                ladder=LADDER,
            )
    except Forbidden as err:
        return [Unknown(source, f"not run: {err}")]
    except OSError as err:
        return [Unknown(source, f"cannot be run: {err.strerror}")]
    isolated.log_errors(source, ended)
    return [interpret(source, check, ended)]


def interpret(source: str, check: Nagios, ended: Ended) -> CheckResult:
    """The result that an exit status and output mean."""
    if ended.fault or not 0 <= ended.status < len(_STATES):
        return Unknown(source, ended.fault or ending(ended.status))
    state = _STATES[ended.status]
    meaning: str = getattr(check, state)
    line = _first_line(ended.output)
    if meaning == UNKNOWN:
        return Unknown(source, f"reports {state.upper()}{': ' if line else ''}{line}")
    if meaning == OK:
        return Finding(source, OK)
    details = {"state": state.upper()} | ({"text": line} if check.text and line else {})
    return Finding(source, meaning, check.repair if meaning == LIVE_REPAIR else "", details)


def _first_line(output: bytes) -> str:
    """The text of a check, without figures and without what no line should hold."""
    line = output.partition(b"\n")[0].partition(b"|")[0]
    text = line.decode(errors="backslashreplace").strip()
    return printable(text)[:_LONGEST]
