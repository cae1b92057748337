"""Site plugins that cannot be stopped from inside: their process is killed, the answer is valid.

Every test runs the real program.  What a plugin leaves behind would keep the test waiting.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from rogue import plugin
from thorough import often

if TYPE_CHECKING:
    from sites import Capture, Site

#: Seconds a call of a hook may take in these tests.
LIMIT: Final = 0.5

LATE: Final = "took longer than its 0.5 s and was stopped"
CLOSED: Final = "closed the connection of its process"

#: What a plugin does -> what the answer says behind its name.
KINDS: Final = {
    "endless loop": ("while True: pass", LATE),
    "loop that swallows everything": (
        """
        while True:
            try:
                time.sleep(3600)
            except BaseException:
                pass
        """,
        LATE,
    ),
    "C library that never returns": ("import ctypes; ctypes.CDLL(None).pause()", LATE),
    "C library that keeps the interpreter": (
        "import ctypes; ctypes.PyDLL(None).sleep(3600)",
        LATE,
    ),
    "regular expression": ("import re; re.match('(a+)+$', 'a' * 60 + 'b')", LATE),
    "signals blocked": (
        """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(3600)
        """,
        LATE,
    ),
    "deadlock of threads": (
        """
        import threading
        lock = threading.Lock()
        lock.acquire()
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        """,
        LATE,
    ),
    "children that keep everything open": (
        """
        for _ in range(5):
            if not os.fork():
                time.sleep(3600)
        time.sleep(3600)
        """,
        LATE,
    ),
    "endless output": ("while True: os.write(2, b'noise' * 1000)", LATE),
    "exit with success": ("os._exit(0)", "its process ended with exit status 0"),
    "exit": ("os._exit(3)", "its process ended with exit status 3"),
    "exit beside children": (
        """
        for _ in range(5):
            if not os.fork():
                time.sleep(3600)
        os._exit(3)
        """,
        "its process ended with exit status 3",
    ),
    "crash": ("import ctypes; ctypes.string_at(0)", "its process was ended by SIGSEGV"),
    "abort": ("os.abort()", "its process was ended by SIGABRT"),
    "kills itself": ("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"),
    "kills its group": ("os.killpg(0, 15)", "its process was ended by SIGTERM"),
    "memory": ("bytearray(2**33)", "failed: MemoryError: no message"),
    "memory without end": (
        """
        found = []
        while True:
            found.append(bytearray(2**28))
        """,
        ("failed: MemoryError: no message", LATE),
    ),
    "descriptors closed": ("os.closerange(0, 1000); time.sleep(3600)", CLOSED),
    "descriptors closed and gone on": ("os.closerange(0, 1000); return []", CLOSED),
    "noise on all descriptors": (
        """
        for number in range(3, 300):
            try:
                os.write(number, bytes([255] * 9))
            except OSError:
                pass
        """,
        "broke its connection: the message is too long",
    ),
    "system exit": ("raise SystemExit(2)", "failed: SystemExit: 2"),
    "interrupt": ("raise KeyboardInterrupt", "failed: KeyboardInterrupt: no message"),
    "stack": (
        """
        import re
        sys.setrecursionlimit(2**31 - 1)
        class Deep:
            def __repr__(self): return repr(self)
        repr(Deep())
        """,
        ("its process was ended by SIGSEGV", "failed: RecursionError:", "failed: MemoryError:"),
    ),
}


#: Calls of which the fastest is compared: a busy machine can delay one call, not each.
ATTEMPTS: Final = 3


def timed(site: Site, message: dict[str, object]) -> tuple[dict[str, Any], float]:
    """The answer of a call, and the seconds it took."""
    started = time.monotonic()
    answer = site.run(message)
    return answer, time.monotonic() - started


def start_up(site: Site, message: dict[str, object]) -> float:
    """Seconds the program takes with a plugin that returns at once."""
    plugin(site, "steward_constrain", "return []", "harmless")
    site.configure("harmless")
    return timed(site, message)[1]


@pytest.mark.parametrize(("body", "fault"), KINDS.values(), ids=KINDS)
def test_rule(site: Site, capture: Capture, body: str, fault: str | tuple[str, ...]) -> None:
    message = capture("allocate-drbd")
    plugin(site, "steward_constrain", body)
    site.configure("rogue", limit=LIMIT)
    faults = (fault,) if isinstance(fault, str) else fault
    times = []
    for _ in range(ATTEMPTS):
        answer, took = timed(site, message)
        assert (answer["success"], answer["result"]) == (False, [])
        assert answer["info"].startswith(
            tuple(f"Request failed: plugin rogue: {f}" for f in faults)
        )
        times.append(took)
        if took < LIMIT + 1:
            return
    # The start of the program is not part of the limit; mostly that need not be known.
    assert min(times) < start_up(site, message) + LIMIT + 5


#: Usually some of the kinds, all of which `test_rule` tries, and those that answer after all.
SOME: Final = {
    name: kind
    for at, (name, kind) in enumerate(KINDS.items())
    if at % often(3, 1) == 0 or ("descriptors" in kind[0] and "return" in kind[0])
}


@pytest.mark.parametrize(("body", "fault"), SOME.values(), ids=SOME)
def test_the_next_allocator_answers(
    site: Site, capture: Capture, body: str, fault: str | tuple[str, ...]
) -> None:
    plugin(site, "steward_allocate", body)
    more = f'[allocators]\nallocate = ["rogue", "balanced"]\ntime-limit = {LIMIT * 2}\n'
    site.configure("rogue", more=more)
    answer = site.run(capture("allocate-drbd"))
    if "descriptors" in body and "return" in body:
        assert answer["success"] is True
    assert set(answer["result"]) == {"node1.lab", "node2.lab"}, answer["info"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("while True: pass", LATE),
        ("import ctypes; ctypes.PyDLL(None).sleep(3600)", LATE),
        ("os._exit(0)", "its process ended with exit status 0"),
        ("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"),
        ("os.closerange(0, 1000)", CLOSED),
    ],
)
def test_loading(site: Site, capture: Capture, body: str, fault: str) -> None:
    site.plugin("rogue", body)
    site.configure("rogue", limit=LIMIT)
    answer = site.run(capture("allocate-drbd"))
    assert answer["info"] == f"Request failed: plugin rogue: {fault}"
