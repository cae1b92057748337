"""The first steps of a forked child: it lets go of everything that belongs to its parent."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final, NoReturn

from ganeti_steward.core.process.memory_lock import lock_memory_again

#: Signals that request the end of a process.
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: Signals for which the parent may have handlers that must not run in the child.
_ORDINARY: Final = (*ENDING, signal.SIGALRM, signal.SIGCHLD)

#: Loaded here once, not in each child.
LIBC: Final = ctypes.CDLL(None)

#: prctl's number for "send me this signal when my parent ends".
_SET_PARENT_DEATH_SIGNAL: Final = 1


class Stopped(BaseException):
    """Raised where a request to end comes; no ``except Exception`` stops it."""


def fork(child: Callable[[], Any]) -> int:
    """Fork, only where no other thread of Python's is running; the child's process id.

    The child calls ``child`` and exits.  No handler of the parent for an ordinary signal runs in it
    before it has its own.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ORDINARY)
    try:
        pid = _fork()
        if not pid:
            _exit_after(child)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fork() -> int:
    """Fork; Python 3.12 warns also of threads of C libraries, which care for themselves."""
    if sys.version_info < (3, 12):
        return os.fork()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _exit_after(child: Callable[[], Any]) -> NoReturn:
    """Exit, without the parent's handlers and whatever threads there are."""
    status = 1
    try:
        # What the parent has made is not searched for garbage: that would copy it.
        gc.freeze()
        gc.enable()
        lock_memory_again()
        child()
        status = 0
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def detach(keep: Collection[int], errors: int) -> None:
    """Become the leader of a session; hold only these descriptors and the log file.

    Standard output and standard error both lead to the descriptor ``errors``, standard input
    to nothing.  The other numbers stay in use: an object that still owns one must not close
    another file.
    """
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    kept = {0, 1, 2, nothing, *keep, *_log_files()}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in kept:
            # The descriptor of the listing itself is closed by now.
            with suppress(OSError):
                os.dup2(nothing, descriptor, inheritable=False)


def renew_streams() -> None:
    """Drop what the parent has read and not yet written of the standard streams."""
    sys.stdin = os.fdopen(0, closefd=False)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = os.fdopen(number, "w", buffering=1, errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)


def _log_files() -> set[int]:
    """The descriptors the program's log is written to."""
    handlers = logging.getLogger("ganeti_steward").handlers
    streams = [each.stream for each in handlers if isinstance(each, logging.FileHandler)]
    return {stream.fileno() for stream in streams if stream}


def reset_signals(*stopping: signal.Signals) -> None:
    """Give every signal its default action, and let none be blocked.

    ``stopping``: those that raise `Stopped`, the first of them; the others are ignored from then.
    """

    def stop(*_: object) -> NoReturn:
        ignore_signals(*stopping)
        raise Stopped

    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.set_wakeup_fd(-1)
    for number in _ORDINARY:
        signal.signal(number, stop if number in stopping else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def ignore_signals(*numbers: signal.Signals) -> None:
    """Let these signals have no effect."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def end_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Get a signal when the parent, a process id, ends in whatever way."""
    LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(1)


def limit_memory(more: int) -> None:
    """Allow ``more`` bytes of address space in addition to what is used now; write no core file.

    Where the machine itself runs out of memory first, the kernel ends this process first.
    """
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, used + more)
    _lower(resource.RLIMIT_CORE, 0)
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:
        file.write(b"1000")


def _lower(kind: int, limit: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(kind, (limit, limit))
