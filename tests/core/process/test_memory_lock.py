"""Memory locking, each time in a separate process, as the kernel reports it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from ganeti_steward.core.process.memory_lock import _has_capability

START: Final = """
import ctypes, json, os, resource, sys, threading
from ganeti_steward.core.process.memory_lock import keep_small, lock_memory

def of_status(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

def of_private():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))

def drop_rights(hard):
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
"""


def run(source: str) -> Any:
    """What a process prints."""
    done = subprocess.run(
        [sys.executable, "-c", START + source], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


needs_the_right: Final = pytest.mark.skipif(
    not _has_capability(), reason="memory cannot be locked here"
)


@needs_the_right
def test_everything_is_locked_now_and_in_future() -> None:
    fault, before, after, later = run("""
before = of_status("VmLck")
fault = lock_memory()
after = of_status("VmLck")
kept = bytearray(64 * 2**20)
print(json.dumps([fault, before, after, of_status("VmLck")]))
""")
    assert (fault, before) == ("", 0)
    assert after > 1024
    assert later >= after + 64 * 1024


@needs_the_right
def test_a_forked_child_has_to_lock_again() -> None:
    parent, child, again = run("""
lock_memory()
reading, writing = os.pipe()
if os.fork() == 0:
    inherited = of_status("VmLck")
    lock_memory()
    os.write(writing, json.dumps([inherited, of_status("VmLck")]).encode())
    os._exit(0)
os.wait()
print(json.dumps([of_status("VmLck"), *json.loads(os.read(reading, 1000))]))
""")
    assert parent > 1024
    assert child == 0
    assert again > 1024


@needs_the_right
def test_a_forked_child_locks_what_it_touches() -> None:
    """Only if its parent has; and nothing of what both share is copied for that (kB)."""
    for locked in (True, False):
        shared, child, more = run(f"""
from ganeti_steward.core.process.memory_lock import lock_memory_again
kept = bytearray(64 * 2**20)
if {locked}:
    lock_memory()
reading, writing = os.pipe()
if os.fork() == 0:
    lock_memory_again()
    first, private = of_status("VmLck"), of_private()
    more = b"x" * 8 * 2**20
    os.write(writing, json.dumps([private, first, of_status("VmLck") - first]).encode())
    os._exit(0)
os.wait()
print(os.read(reading, 1000).decode())
""")
        assert shared < 32 * 1024
        assert (child > 1024) == locked
        assert (more >= 8 * 1024) == locked


@needs_the_right
def test_threads_take_little() -> None:
    """With the memory locked, all of a thread's stack is there at once (kB)."""
    usual, small = (
        run(f"""
{call}
lock_memory()
before = of_status("VmRSS")
enough = threading.Event()
for _ in range(4):
    threading.Thread(target=enough.wait, daemon=True).start()
print(json.dumps(of_status("VmRSS") - before))
""")
        for call in ("", "keep_small()")
    )
    assert small < 4 * 1024 < usual


@needs_the_right
def test_without_the_right() -> None:
    fault, locked, limit = run("""
drop_rights(2**20)
fault = lock_memory()
print(json.dumps([fault, of_status("VmLck"), resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]]))
""")
    assert fault == (
        "the memory is not locked: neither the capability CAP_IPC_LOCK nor an unlimited "
        "RLIMIT_MEMLOCK is there"
    )
    assert (locked, limit) == (0, 0)


@needs_the_right
def test_a_limit_that_may_be_raised() -> None:
    """Not even root may raise the hard limit everywhere, so here it only says that it is high."""
    assert run("""
drop_rights(2**20)
raised = []
resource.getrlimit = lambda _: (0, resource.RLIM_INFINITY)
resource.setrlimit = lambda *given: raised.append(given)
lock_memory()
print(json.dumps(raised == [(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)]))
""")


@pytest.mark.parametrize(
    ("libc", "reason"),
    [
        ("raise OSError(2, 'no such library')", "[Errno 2] no such library"),
        ("return object()", "'object' object has no attribute 'mlockall'"),
    ],
)
def test_a_library_without_it_is_no_failure(libc: str, reason: str) -> None:
    fault = run(f"""
def library(*_, **__):
    {libc}
ctypes.CDLL = library
resource.setrlimit = lambda *_: None
resource.getrlimit = lambda _: (0, resource.RLIM_INFINITY)
keep_small()
print(json.dumps(lock_memory()))
""")
    assert fault == f"the memory is not locked: {reason}"
