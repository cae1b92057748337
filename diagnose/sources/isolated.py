"""Running a source in a process of its own, so that nothing it does harms the caller.

A statvfs that never returns, an endless loop, a crash in a C library: each ends as Unknown
within the limit, and other sources are not touched.  What it said before stays said.

The child is forked, so Python does not have to start again.  It holds none of the caller's
files and sockets: one that cannot be killed would keep a lock or a port for ever.  It says
each thing on a line of JSON of its own; the last line is ``null``.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Final, NoReturn

from ganeti_steward.core.hooks.timed_call import sentence, shown
from ganeti_steward.core.json_reader import printable, quoted
from ganeti_steward.core.model.finding import (
    STATUSES,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
    is_name,
)
from ganeti_steward.core.process import Ended, follow
from ganeti_steward.core.process_group import Ladder, ending
from ganeti_steward.diagnose.model.object import BadObject, parse

#: What a source is: called without arguments, it says what it knows.
Source = Callable[[], Iterable[CheckResult] | None]

#: Bytes that all a source says may take.
OUTPUT_LIMIT: Final = 4 * 2**20

#: Asked to end, so that it stops the programs it runs; then killed.
_LADDER: Final[Ladder] = ((signal.SIGTERM, 0.15), (signal.SIGKILL, 0.15))

#: Signals for which the caller may have handlers that are none of the child's business.
_ORDINARY: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD)

#: The kinds of what is said, by their names on a line.
_KINDS: Final = {kind.__name__: kind for kind in (Finding, Unknown, NotApplicable)}

_DONE: Final = b"null"

#: Lines of standard error that are logged, of one run; a traceback has fewer.
_LINES_LOGGED: Final = 200

#: Characters of such a line, and of a reason; an exception may hold megabytes.
_LONGEST: Final = 500

_log = logging.getLogger(__name__)


class _Overrun(BaseException):
    """Raised in a source whose time is over; no ``except Exception`` stops it."""


class _BadSaid(Exception):
    """Something a source may not say."""


def run(
    name: str,
    limit: float,
    source: Source,
    *,
    output_limit: int = OUTPUT_LIMIT,
    around: float = 0,
) -> list[CheckResult]:
    """What a source says within ``limit`` seconds; takes hardly more and never raises.

    It may speak for itself (``name``) and its objects (``name:object``).  What is wrong with
    it becomes Unknown under its name.  ``around`` is how many seconds more a source has that
    keeps the limit itself.
    """
    try:
        ended = _forked(lambda output: _tell(name, source, output), limit, output_limit, around)
    except OSError as err:
        return [Unknown(name, f"cannot be run: {err.strerror}")]
    log_errors(name, ended)
    *lines, _ = ended.output.split(b"\n")
    said = [_heard(name, line) for line in dict.fromkeys(lines) if line != _DONE]
    fault = _fault(ended, done=_DONE in lines)
    return [*said, Unknown(name, fault)] if fault else said


def log_errors(name: str, ended: Ended) -> None:
    """Put the first lines of what was printed on standard error into the log."""
    lines = ended.errors.decode(errors="backslashreplace").splitlines()
    for line in [line[:_LONGEST] for line in lines if line.strip()][:_LINES_LOGGED]:
        # A child's own log comes this way, with the name before each line already.
        _log.warning("%s: %s", name, printable(line).removeprefix(f"{name}: "))


def _fault(ended: Ended, *, done: bool) -> str:
    if ended.fault:
        return ended.fault
    if done:
        return ""
    return ending(ended.status) + ("" if ended.status < 0 else " before it was done")


def _heard(name: str, line: bytes) -> CheckResult:
    """One thing the child said, which was checked there already."""
    try:
        kind, fields = parse(line)
        said: CheckResult = _KINDS[kind](*fields)
        _check(name, said)
    except (BadObject, _BadSaid, ValueError, KeyError, TypeError):
        # The source found the child's pipe and wrote into it.
        return Unknown(name, "disturbed what it said itself")
    return said


def _forked(work: Callable[[int], None], limit: float, output_limit: int, around: float) -> Ended:
    """Let a child do some work, which writes to a descriptor; raises OSError."""
    output, output_end = os.pipe()
    errors, errors_end = os.pipe()
    try:
        try:
            pid = os.fork()
            if not pid:
                _be_child(work, output_end, errors_end)
        finally:
            os.close(output_end)
            os.close(errors_end)
        return follow(pid, output, errors, limit, output_limit, _LADDER, around)
    finally:
        os.close(output)
        os.close(errors)


def _be_child(work: Callable[[int], None], output: int, errors: int) -> NoReturn:
    """Work and end, without a way back: not even the handlers of atexit are called."""
    status = 1
    try:
        os.setsid()
        output = fcntl.fcntl(output, fcntl.F_DUPFD_CLOEXEC, 3)
        _let_go(output, fcntl.fcntl(errors, fcntl.F_DUPFD_CLOEXEC, 3))
        _use_own_signals()
        work(output)
        status = 0
    finally:
        os._exit(status)


def _let_go(output: int, errors: int) -> None:
    """Hold nothing of the caller's.

    The numbers stay in use: an object that still believes in one must not close another file.
    """
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(errors, 2)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in (output, null):
            os.dup2(null, descriptor, inheritable=False)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    # The caller's log may be a file that is closed here; it logs our standard error.
    logging.getLogger("ganeti_steward").handlers = [logging.StreamHandler(sys.stderr)]


def _use_own_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _ORDINARY:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _stop)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Overrun


def _tell(name: str, source: Source, output: int) -> None:
    """Write what a source says, as soon as it says it."""
    own = os.getpid()
    with open(output, "wb") as file:
        for line in _lines(name, source):
            if os.getpid() != own:
                # A child the source made, and let run on into what is not its own.
                os._exit(1)
            file.write(line + b"\n")
            file.flush()


def _lines(name: str, source: Source) -> Iterator[bytes]:
    try:
        said = source()
        for one in () if said is None else said:
            yield _line_or_fault(name, one)
    except _Overrun:
        _log.warning("stopped here, its time was over:", exc_info=True)
        return
    except BaseException as err:
        # Also what is no Exception, as SystemExit.
        _log.warning("failed:", exc_info=True)
        yield _line(name, Unknown(name, f"failed: {sentence(err)}"[:_LONGEST]))
    yield _DONE


def _line_or_fault(name: str, one: object) -> bytes:
    try:
        return _line(name, one)
    except _BadSaid as err:
        return _line(name, Unknown(name, str(err)[:_LONGEST]))


def _line(name: str, one: object) -> bytes:
    """One thing as a line; raises _BadSaid."""
    what = _check(name, one)
    try:
        line = json.dumps([type(one).__name__, one]).encode()
        parse(line)
    except (TypeError, ValueError, RecursionError) as err:
        raise _BadSaid(f"says about {what} what is not JSON: {sentence(err)}") from None
    except BadObject as err:
        raise _BadSaid(f"says about {what} what is not good JSON: {err}") from None
    return line


def _check(name: str, one: object) -> str:
    """Whom something is about, for a sentence; raises _BadSaid for what no source may say."""
    if not isinstance(one, Finding | Unknown | NotApplicable):
        raise _BadSaid(f"gave {shown(one)}, which is nothing a source can say")
    if not (isinstance(one.source, str) and f"{one.source}:".startswith(f"{name}:")):
        raise _BadSaid(f"speaks for {shown(one.source)}, not for itself")
    what = quoted(one.source)
    if isinstance(one, Finding):
        _check_finding(what, one)
    elif not isinstance(one.reason, str):
        raise _BadSaid(f"gives {shown(one.reason)} as a reason about {what}, not a text")
    return what


def _check_finding(what: str, finding: Finding) -> None:
    if finding.status not in STATUSES:
        known = ", ".join(STATUSES)
        raise _BadSaid(f"gives {what} the status {shown(finding.status)} (known: {known})")
    command = finding.command
    if not isinstance(command, str) or (command and not is_name(command)):
        raise _BadSaid(f"asks for {shown(command)} for {what}, which is no name of a command")
