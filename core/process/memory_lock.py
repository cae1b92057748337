"""Keeping a program in memory, so that it can still answer when its disk is dead.

``docs/reference/agent.md`` says what then still answers.
"""

from __future__ import annotations

import os
import resource
import threading
from typing import Final

#: Flags of mlockall: what is there, and what will be.
_CURRENT: Final = 1
_FUTURE: Final = 2

#: Nothing is read or copied in advance: what a child shares with its parent is there.
_ON_FAULT: Final = 4

#: The capability that frees from the limit on locked memory; its bit.
_IPC_LOCK: Final = 14

#: Option of mallopt: how many heaps there may be at most.
_ARENA_MAX: Final = -8

#: Bytes; the usual 8 MiB of each thread would all be taken, and locked.
_STACK: Final = 256 * 2**10


def keep_small() -> None:
    """Let threads that are started from now on need little memory; call before locking it."""
    threading.stack_size(_STACK)
    try:
        import ctypes

        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    except (ImportError, OSError, AttributeError):
        # Another C library: the heaps are as large as they are.
        return


#: The process whose memory was locked: this one, or one it was forked from.
_locked: Final = set[int]()


def lock_memory() -> str:
    """Lock all memory of this process, now and in future; why not where that is impossible.

    A child made by fork starts without the lock and has to call `lock_memory_again`; a program
    it executes never has it.
    """
    fault = _lock(_CURRENT | _FUTURE)
    if not fault:
        _locked.add(os.getpid())
    return fault


def lock_memory_again() -> None:
    """Lock the memory of a forked child whose parent has locked its own."""
    if _locked:
        _lock(_CURRENT | _FUTURE | _ON_FAULT)


def _lock(flags: int) -> str:
    if not _may_lock_all():
        return (
            "the memory is not locked: neither the capability CAP_IPC_LOCK nor an unlimited "
            "RLIMIT_MEMLOCK is there"
        )
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mlockall(flags) == 0:
            return ""
        reason = os.strerror(ctypes.get_errno())
    except (ImportError, OSError, AttributeError) as err:
        reason = str(err)
    return f"the memory is not locked: {reason}"


def _may_lock_all() -> bool:
    """Whether there is no limit; one that is reached later would make every allocation fail."""
    if _has_capability():
        return True
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    return hard == resource.RLIM_INFINITY


def _has_capability() -> bool:
    try:
        with open("/proc/self/status", "rb") as status:
            lines = dict(line.split(b":", 1) for line in status if b":" in line)
        return bool(int(lines[b"CapEff"], 16) >> _IPC_LOCK & 1)
    except (OSError, KeyError, ValueError):
        return False
