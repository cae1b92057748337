"""Running a source in a process of its own, so that nothing it does harms the caller.

A statvfs that never returns, an endless loop, a crash in a C library: each ends as Unknown
within the limit, and other sources are not affected.  Results reported before still count.
A worker that cannot be killed holds none of the caller's files, locks and sockets.

The worker's results come as lines (`ganeti_steward.diagnose.sources.results`); its complaints go
to standard error, and from there into the log.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TextIO

from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.process import supervisor
from ganeti_steward.core.process.following import Ended, Ladder, ending
from ganeti_steward.core.process.forked import Stopped
from ganeti_steward.core.process.supervisor import STOPPED, Limits, Outcome, Supervisor
from ganeti_steward.diagnose.sources.results import (
    DONE,
    LONGEST_REASON,
    OwnName,
    from_line,
    is_own_name,
    to_line,
)

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


class Source(NamedTuple):
    """Something that reports about this node."""

    name: str
    call: Callable[[], Iterable[CheckResult | OwnName] | None]
    """called in a worker; may report about itself (``name``) and its objects (``name:object``)"""
    limit: float
    """seconds"""
    output_limit: int = OUTPUT_LIMIT
    """bytes"""
    around: float = 0
    """extra seconds for a source that keeps the limit itself"""
    taken: frozenset[str] | None = None
    """names of other sources; with it this one may have a name of its own"""
    known: tuple[CheckResult, ...] = ()
    """its results, where it needs no worker"""

    @property
    def limits(self) -> Limits:
        """What its worker may take."""
        return Limits(self.limit, self.output_limit, _LADDER, START_UP + self.around)

    def work(self, output: int) -> None:
        """Call it, in a worker."""
        _work(self.name, self.call, output)

    def start(self) -> Supervisor:
        """Have it called; raises OSError.  This process forks, so it has no other threads."""
        return Supervisor(self.work, self.limits)

    def results(self, outcome: Outcome) -> list[CheckResult]:
        """What it has reported; what failed becomes Unknown."""
        ended = outcome.ended
        if outcome.number:
            return [Unknown(self.name, f"cannot be run: {ended.fault}")]
        if ended.fault == STOPPED:
            return [Unknown(self.name, STOPPED)]
        log_errors(self.name, ended)
        *lines, _ = ended.output.split(b"\n")
        results = self._read(line for line in dict.fromkeys(lines) if line != DONE)
        fault = _fault(ended, done=DONE in lines)
        return [*results, Unknown(self.name, fault)] if fault else results

    def _read(self, lines: Iterable[bytes]) -> list[CheckResult]:
        results: list[CheckResult] = []
        names: tuple[str, ...] = (self.name,)
        for line in lines:
            result = from_line(self.name, names, line)
            if not isinstance(result, OwnName):
                results.append(result)
            elif self.taken is not None and is_own_name(result.name, self.taken):
                names = (self.name, result.name)
        return results


def run(source: Source) -> list[CheckResult]:
    """The results of one source, after its limit at most."""
    try:
        outcome = supervisor.run(source.work, source.limits)
    except OSError as err:
        return [Unknown(source.name, f"cannot be run: {err.strerror}")]
    return source.results(outcome)


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


# -- The worker


def _work(name: str, call: Callable[[], Iterable[object] | None], output: int) -> None:
    """Call a source and write each result as soon as it has it."""
    _log_to_standard_error()
    with open(os.devnull, "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 1)
    os.chdir("/")
    importlib.invalidate_caches()
    own = os.getpid()
    with open(output, "wb") as file:
        for line in _lines(name, call):
            if os.getpid() != own:
                # A child the source forked, running on into what is not its own.
                os._exit(1)
            file.write(line + b"\n")
            file.flush()


def _log_to_standard_error() -> None:
    """The caller logs what comes there.  A worker that cannot be killed must not hold its file."""
    logger = logging.getLogger("ganeti_steward")
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.close()
    logger.handlers, logger.propagate = [_StandardError()], False


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _lines(name: str, call: Callable[[], Iterable[object] | None]) -> Iterator[bytes]:
    try:
        results = call()
        for result in () if results is None else results:
            yield to_line(name, result)
    except Stopped:
        _log.warning("stopped here, its time was over:", exc_info=True)
        return
    except BaseException as err:
        # Also what is no Exception, as SystemExit.
        _log.warning("failed:", exc_info=True)
        yield to_line(name, Unknown(name, f"failed: {sentence(err)}"[:LONGEST_REASON]))
    yield DONE
