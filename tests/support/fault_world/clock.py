"""Simulated time, and processes whose threads run one at a time, always in the same order.

A thread of a process runs until it waits; then events happen, in the order of their times, until it
is that thread's turn again.  No real time passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from greenlet import getcurrent, greenlet

from ganeti_steward.plugins.filters.queue import Schedule

SECOND: Final = 10**9

Event = Callable[[], None]


class Killed(BaseException):
    """The process of this thread was killed: nothing of it runs any more."""


class Clock:
    """The time, what happens when, and which thread runs."""

    def __init__(self, now: int) -> None:
        """``now``: ns since the epoch."""
        self.schedule = Schedule(now)
        self.thread: Thread | None = None
        """the simulated thread that runs; None: none does"""
        self._limit = now
        """nothing happens after this, ns since the epoch"""

    @property
    def now(self) -> int:
        """ns since the epoch, as the cluster would have it without faults of clocks."""
        return self.schedule.now

    def after(self, seconds: float, event: Event) -> None:
        """Have something happen later."""
        self.schedule.after(seconds * SECOND, event)

    def run_until(self, at: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen up to a time, ns since the epoch; ``stop``: or until this holds."""
        self._limit = at
        while self.schedule.next is not None and self.schedule.next <= at and not stop():
            self.schedule.run()
        self._limit = 0

    def skip(self, seconds: float) -> bool:
        """Let time pass in which nothing else happens; False: something does, and none passed."""
        at, following = self.now + max(int(seconds * SECOND), 0), self.schedule.next
        if at > self._limit or (following is not None and following <= at):
            return False
        self.schedule.now = at
        return True


class Process:
    """One process: killed or stopped as a whole."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock, self.name = clock, name
        self.alive, self.stopped = True, False
        self._threads: list[Thread] = []
        self._missed: list[Event] = []
        """what would have run threads of it while it was stopped"""

    def start(self, work: Callable[[], None]) -> Thread:
        """A thread of it; it begins when the one that runs now waits."""
        self._threads = [one for one in self._threads if one.is_alive()]
        thread = Thread(self._clock, self, work)
        self._threads.append(thread)
        return thread

    @property
    def threads(self) -> int:
        """How many of its threads have not ended."""
        return sum(one.is_alive() for one in self._threads)

    def kill(self) -> None:
        """End it at once (SIGKILL): no thread of it does anything any more."""
        self.alive = False
        for thread in self._threads:
            if thread is not self._clock.thread:
                thread.turn()

    def stop(self) -> None:
        """Stop it (SIGSTOP)."""
        self.stopped = True

    def go_on(self) -> None:
        """Let it go on (SIGCONT)."""
        self.stopped = False
        missed, self._missed = self._missed, []
        for event in missed:
            self._clock.after(0, event)

    def when_running(self, event: Event) -> None:
        """Have something happen now, or once it is not stopped any more."""
        if self.stopped:
            self._missed.append(event)
        else:
            event()


class Thread:
    """A thread of a process; see `ganeti_steward.plugins.maintenance.runtime.Running`."""

    def __init__(self, clock: Clock, process: Process, work: Callable[[], None]) -> None:
        self._clock, self._process, self._work = clock, process, work
        self._done, self._wait, self._woken = False, 0, False
        self._ends: list[Event] = []
        self.fault: BaseException | None = None
        """what it was ended by, apart from a kill"""
        self._context = greenlet(self._run)
        clock.after(0, lambda: process.when_running(self.turn))

    def _run(self) -> None:
        try:
            if self._process.alive:
                self._work()
        except Killed:
            pass
        except BaseException as err:
            self.fault = err
        self._done = True
        for event in self._ends:
            self._clock.after(0, event)

    def turn(self) -> None:
        """Run until it waits or ends; called between threads, or by another thread that kills."""
        if self._done:
            return
        before, self._clock.thread = self._clock.thread, self
        self._context.parent = getcurrent()
        self._context.switch()
        self._clock.thread = before

    def wait(self, seconds: float | None) -> bool:
        """Called by itself: wait for so long, or until `wake`: True then; raises Killed."""
        if not self._process.alive:
            raise Killed
        self._wait, self._woken = self._wait + 1, False
        if seconds is not None and not self._process.stopped and self._clock.skip(seconds):
            return False
        if seconds is not None:
            self._clock.after(max(seconds, 0), self._ending(self._wait))
        assert self._context.parent is not None, "it runs"
        self._context.parent.switch()
        if not self._process.alive:
            raise Killed
        return self._woken

    def _ending(self, wait: int) -> Event:
        def end() -> None:
            if wait == self._wait and not self._done:
                self._process.when_running(self._again(wait))

        return end

    def _again(self, wait: int) -> Event:
        def again() -> None:
            if wait == self._wait:
                self._wait += 1
                self.turn()

        return again

    def wake(self) -> None:
        """End its wait."""
        wait = self._wait

        def woken() -> None:
            if wait == self._wait:
                self._woken = True
                self._process.when_running(self._again(wait))

        self._clock.after(0, woken)

    # As the daemon sees it

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self._done

    def join(self, timeout: float | None = None) -> None:
        """Called by another thread: wait until it has ended, for so many seconds at most."""
        caller = self._clock.thread
        if self._done or caller is None or timeout == 0:
            return
        self._ends.append(caller.wake)
        caller.wait(timeout)
        if caller.wake in self._ends:
            self._ends.remove(caller.wake)
