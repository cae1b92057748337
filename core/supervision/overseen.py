"""Continuing below a supervisor: a process that ends whatever this one has started."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from ganeti_steward.core import forked
from ganeti_steward.core.supervision.descendants import become_subreaper, end_descendants

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Stopped(BaseException):
    """The supervisor has got a signal."""


def continue_overseen(parent: int, descriptors: Sequence[int]) -> None:
    """Fork, and continue in the child; this process becomes its supervisor.

    The supervisor ends as the child does, or when it gets a signal or ``parent``, a process id,
    ends; then nothing that is below it is left.  It closes ``descriptors``, those of the child.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    own = os.getpid()
    child = forked.fork()
    if child:
        _oversee(child, parent, descriptors)
    # A signal to its own group is not one to the supervisor.
    os.setsid()
    forked.end_with_parent(own)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _oversee(child: int, parent: int, descriptors: Sequence[int]) -> NoReturn:
    status = -signal.SIGKILL
    try:
        for descriptor in descriptors:
            os.close(descriptor)
        become_subreaper()
        with suppress(_Stopped):
            for number in _ENDING:
                signal.signal(number, _stop)
            forked.end_with_parent(parent, signal.SIGTERM)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            status = _end_of(child)
            _ignore_signals()
        end_descendants()
        _end_as(status)
    finally:
        os._exit(1)


def _end_of(child: int) -> int:
    """Reap orphans as they end, until the child does; its exit status or negative signal."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _stop(*_: object) -> NoReturn:
    _ignore_signals()
    raise _Stopped


def _ignore_signals() -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _end_as(status: int) -> NoReturn:
    """Exit with a status, or by a signal, which leaves no core file here."""
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 1)
