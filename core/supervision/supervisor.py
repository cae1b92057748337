"""Having some work done by a process that leaves nothing of it running.

What that process does is in `ganeti_steward.core.supervision.supervising`.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.process_group import end_group, ending, ends_within
from ganeti_steward.core.supervision.descendants import Process, is_there, process
from ganeti_steward.core.supervision.supervising import STOPPING, Work, forked_supervisor

#: Seconds a supervisor may need in addition to its work: to begin, and to end everything.
AROUND: Final = 5.0


class Outcome(NamedTuple):
    """What came of some work."""

    result: bytes | None
    """None where there is none"""
    fault: str = ""
    """why there is none"""
    number: int = 0
    """of the OSError that the work ended with"""
    stuck: frozenset[Process] = frozenset()
    """what it has started and what cannot be killed"""
    reported: bool = True
    """whether the supervisor has ended everything; else it was killed itself"""


#: Starts a supervisor: gets the work, the descriptor for the message, and descriptors that the
#: work needs; returns the process id, raises OSError.
Start = Callable[[Work, int, Sequence[int]], int]


class Message:
    """The message of a supervisor, as far as it has come."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor``: what it is read from."""
        self._reading, self._received, self._complete = descriptor, bytearray(), False

    def read(self) -> bool:
        """Take what has come; whether that is all."""
        chunk = os.read(self._reading, 2**20)
        self._received += chunk
        self._complete = not chunk
        return self._complete

    def read_until(self, deadline: float) -> bool:
        """Read until all has come; whether it came before a moment of `time.monotonic`."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while not self._complete:
            if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
                return False
            self.read()
        return True

    def outcome(self, end: str) -> Outcome:
        """Its content; ``end``: how the supervisor has ended, in case that there is none."""
        return _outcome(bytes(self._received), end)


class Supervisor:
    """A supervisor that was started, as its parent sees it."""

    def __init__(
        self, work: Work, start: Start | None = None, descriptors: Sequence[int] = ()
    ) -> None:
        """Start it; raises OSError.

        ``start``: `by_program.supervisor_program` where this process has other threads, by default
        `forked_supervisor`.  ``descriptors``: those of this process that the work needs.
        """
        self._reading, writing = os.pipe()
        self._message = Message(self._reading)
        try:
            self.pid = (start or forked_supervisor)(work, writing, descriptors)
        except BaseException:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)

    def fileno(self) -> int:
        """The descriptor to wait at."""
        return self._reading

    def read(self) -> bool:
        """Take what has come; whether that is all."""
        return self._message.read()

    def stop(self) -> None:
        """Request that it ends with everything below it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def finish(self, seconds: float = STOPPING) -> Outcome:
        """What came of the work; a supervisor that does not end is killed.

        ``seconds``: how long it may take to end.
        """
        self._message.read_until(time.monotonic() + seconds)
        own = None if ends_within(self.pid, seconds) else process(self.pid)
        status = end_group(self.pid, ((signal.SIGKILL, 0.2),))
        os.close(self._reading)
        outcome = self._message.outcome(ending(status))
        stays = own is not None and is_there(own)
        return outcome._replace(stuck=outcome.stuck | {own}) if stays and own else outcome

    def wait(self, seconds: float) -> Outcome:
        """What came of the work; after so many seconds the supervisor is stopped."""
        try:
            if not self._message.read_until(time.monotonic() + seconds):
                self.stop()
        except BaseException:
            self.stop()
            self.finish()
            raise
        return self.finish()


def _outcome(raw: bytes, end: str) -> Outcome:
    """What a supervisor has sent: its own line, the worker's line, and the result."""
    first, _, rest = raw.partition(b"\n")
    try:
        about: dict[str, Any] = load_json(first)
        found = frozenset(Process(*one) for one in about["stuck"])
    except (ValueError, TypeError, KeyError):
        fault = f"the process that supervises it {end}"
        return Outcome(None, fault, reported=False)
    if about["fault"]:
        return Outcome(None, about["fault"], stuck=found)
    second, _, result = rest.partition(b"\n")
    try:
        done: dict[str, Any] = load_json(second)
    except ValueError:
        return Outcome(None, "it has left no result", stuck=found)
    fault = done["fault"] or ("" if done["length"] == len(result) else "its result is not complete")
    return Outcome(None if fault else result, fault, done["number"], found)
