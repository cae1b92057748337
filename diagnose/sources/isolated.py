"""Running a source in a process of its own, so that nothing it does harms the caller.

A statvfs that never returns, an endless loop, a crash in a C library: each ends as Unknown
within the limit, and other sources are not affected.  Results reported before still count.
A worker that cannot be killed holds none of the caller's files, locks and sockets.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.process import Ended, follow
from ganeti_steward.core.process_group import Ladder, ending
from ganeti_steward.diagnose.sources.result_lines import (
    DONE,
    OwnName,
    from_line,
    is_own_name,
)
from ganeti_steward.diagnose.sources.worker import Source, start_worker

#: Bytes that all results of a source may take.
OUTPUT_LIMIT: Final = 4 * 2**20

#: Seconds a worker may need until it calls its source; they are not charged to the source.
START_UP: Final = 0.4

#: SIGTERM first, so that it stops the programs it runs.
_LADDER: Final[Ladder] = ((signal.SIGTERM, 0.15), (signal.SIGKILL, 0.15))

#: Lines of standard error that are logged, of one run; a traceback has fewer.
_LINES_LOGGED: Final = 200

#: Characters of such a line.
_LONGEST_LINE: Final = 500

_log = logging.getLogger(__name__)


def run(
    name: str,
    limit: float,
    source: Source,
    *,
    output_limit: int = OUTPUT_LIMIT,
    around: float = 0,
    taken: frozenset[str] | None = None,
) -> list[CheckResult]:
    """The results of a source after ``limit`` seconds at most; what fails becomes Unknown.

    ``source`` may report about itself (``name``) and its objects (``name:object``).
    ``output_limit``: bytes.  ``around``: extra seconds for a source that keeps the limit itself.
    ``taken``: names of other sources; with it this one may have a name of its own.
    The process forks, so it should have no other threads.
    """
    try:
        ended = _ended(name, source, limit, output_limit, START_UP + around)
    except OSError as err:
        return [Unknown(name, f"cannot be run: {err.strerror}")]
    log_errors(name, ended)
    *lines, _ = ended.output.split(b"\n")
    results = _results(name, (line for line in dict.fromkeys(lines) if line != DONE), taken)
    fault = _fault(ended, done=DONE in lines)
    return [*results, Unknown(name, fault)] if fault else results


def _results(name: str, lines: Iterable[bytes], taken: frozenset[str] | None) -> list[CheckResult]:
    results: list[CheckResult] = []
    names: tuple[str, ...] = (name,)
    for line in lines:
        result = from_line(name, names, line)
        if not isinstance(result, OwnName):
            results.append(result)
        elif taken is not None and is_own_name(result.name, taken):
            names = (name, result.name)
    return results


def _ended(name: str, source: Source, limit: float, output_limit: int, around: float) -> Ended:
    """Run a source and follow it; raises OSError."""
    output, output_end = os.pipe()
    errors, errors_end = os.pipe()
    try:
        try:
            pid = start_worker(name, source, output_end, errors_end)
        finally:
            os.close(output_end)
            os.close(errors_end)
        return follow(pid, output, errors, limit, output_limit, _LADDER, around)
    finally:
        os.close(output)
        os.close(errors)


def log_errors(name: str, ended: Ended) -> None:
    """Put the first lines of what was printed on standard error into the log."""
    lines = ended.errors.decode(errors="backslashreplace").splitlines()
    for line in [line[:_LONGEST_LINE] for line in lines if line.strip()][:_LINES_LOGGED]:
        # A worker's own log comes this way, with the name before each line already.
        _log.warning("%s: %s", name, printable(line).removeprefix(f"{name}: "))


def _fault(ended: Ended, *, done: bool) -> str:
    if ended.fault:
        return ended.fault
    if done:
        return ""
    return ending(ended.status) + ("" if ended.status < 0 else " before it was done")
