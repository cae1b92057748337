"""Plugins that are not built in run in a child process; this process keeps their time limits.

The child reports which plugin begins and ends when.  An endless loop, a C library that never
returns, a crash, an exit or memory without end therefore ends as `PluginError` of that plugin,
and the child is killed with everything that it has started.  Where only built-in plugins are
configured, nothing is forked.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.errors import BadSettings, PluginError
from ganeti_steward.core.hooks.channel import (
    BadMessageError,
    Begin,
    Done,
    End,
    Failed,
    Received,
    packed_question,
    signature,
)
from ganeti_steward.core.hooks.child import DISCONNECTED, Serve, Start, forked_child, leaving
from ganeti_steward.core.hooks.watch import Watch
from ganeti_steward.core.process_group import (
    Ladder,
    end_group,
    ending,
    ends_within,
    has_ended,
    reap_abandoned,
    signal_group,
)
from ganeti_steward.core.typed_json import from_json

_T = TypeVar("_T")

#: Seconds between two checks whether the child has ended, when its descriptors stay open.
_CHECK: Final = 0.05

#: Seconds a child has to end after it closed its connection.
_CLOSED: Final = 0.5

#: Bytes of what plugins print that are passed on to standard error.
_PRINTED: Final = 2**16

#: The first signal has the child's supervisor end everything below it.
_KILL: Final[Ladder] = ((signal.SIGTERM, 2.0), (signal.SIGKILL, 1.0))

#: Signals that end this process, and the child before it.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


#: In the place of a type: that of the method's annotation.
_ANNOTATED: Final = object()


class _InChildError(Exception):
    """Stands for what a plugin raised in the child; its text is the traceback."""


class Isolated:
    """A child that answers questions; started for the first one, and after it was killed."""

    def __init__(self, serve: Serve, names: Sequence[str], start: Start = forked_child) -> None:
        """``serve`` runs in the child and makes the object that answers; ``names``: plugins.

        ``start``: where this process has other threads, `program.program_child`.
        """
        self._serve, self._names, self._start = serve, ", ".join(names), start
        self._child: _Child | None = None

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child:
            child.kill()

    def _new_child(self) -> _Child:
        return _Child(self._serve, Watch(self._names, built_in), self._start)

    def ask(self, method: Callable[..., _T], *arguments: object, kind: Any = _ANNOTATED) -> _T:
        """What a method of the object returns in the child; raises PluginError.

        Arguments and result are sent as JSON by the types of the method's annotations.  ``kind``:
        the type of the result where the method returns JSON itself.
        """
        try:
            question = self._packed(method, arguments)
            self._child = self._child or self._new_child()
            message = self._child.ask(question)
            if isinstance(message, Done):
                kind = signature(method)[1] if kind is _ANNOTATED else kind
                value: _T = self._child.read(kind, message.value)
                return value
        except BaseException:
            self._end()
            raise
        if message.last:
            self._end()
        raise _error(message)

    def _packed(self, method: Callable[..., object], arguments: Sequence[object]) -> bytes:
        try:
            return packed_question(method, arguments)
        except (ValueError, RecursionError) as err:
            raise PluginError(self._names, f"cannot be called: {err}") from None


def _error(message: Failed) -> PluginError:
    """The error that was raised in the child."""
    if message.faults:
        return BadSettings(message.plugin, message.faults)
    err = PluginError(message.plugin, message.fault)
    err.__cause__ = _InChildError(f"\n{message.traceback}") if message.traceback else None
    return err


def isolated(names: Sequence[str], kind: Any, work: Callable[[], _T]) -> _T:
    """Do some work with these plugins, in a child where one is foreign; raises PluginError.

    ``kind``: the type of the result.
    """
    if all(map(built_in, names)):
        return work()
    with Isolated(partial(_Work, kind, work), names) as child:
        result: _T = child.ask(_Work.result, kind=kind)
        return result


class _Work:
    """Some work in the child."""

    def __init__(self, kind: Any, work: Callable[[], object]) -> None:
        self._kind, self._work = kind, work

    def result(self) -> Any:
        """What it returns, as JSON."""
        return leaving(self._kind, self._work())


class _Child:
    """One child process, the leader of a session."""

    def __init__(self, serve: Serve, watch: Watch, start: Start) -> None:
        reap_abandoned()
        self._watch, self._received = watch, Received()
        self._status: int | None = None
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        self._printed = _Printed()
        try:
            self._pid = start(serve, questions, answers, self._printed.write_end)
        except OSError as err:
            self._close()
            raise PluginError(watch.suspect, f"cannot be run: {err.strerror}") from None
        finally:
            for descriptor in (questions, answers, self._printed.write_end):
                os.close(descriptor)
        os.set_blocking(self._questions, False)
        self._signals = _Signals(self._pid)

    def ask(self, question: bytes) -> Done | Failed:
        """The child's answer; raises PluginError, after which only `kill` may follow."""
        self._watch.start(time.monotonic())
        self._send(memoryview(question))
        while True:
            try:
                message = self._received.next()
                if isinstance(message, Begin | End):
                    self._watch.take(message, time.monotonic())
            except BadMessageError as err:
                raise self._broken(err) from None
            if isinstance(message, Done | Failed):
                return message
            if message is None:
                self._wait()

    def read(self, kind: Any, data: Any) -> Any:
        """A value of a type in the child's answer; raises PluginError, as `ask`."""
        try:
            return from_json(kind, data)
        except ValueError as err:
            raise self._broken(err) from None

    def _broken(self, err: Exception) -> PluginError:
        return PluginError(self._watch.suspect, f"broke its connection: {err}")

    def _send(self, left: memoryview) -> None:
        while left:
            try:
                left = left[os.write(self._questions, left) :]
            except (BlockingIOError, BrokenPipeError):
                # It reads nothing: it has ended, or a thread of a plugin keeps it from running.
                self._wait()

    def _wait(self) -> None:
        """Read what comes next; raises PluginError when the child has to be killed."""
        late = self._watch.overdue(time.monotonic())
        if late:
            raise late
        # Before the last look at the pipe, so that nothing it has written is missed.
        ended = has_ended(self._pid)
        left = min(self._watch.deadline() - time.monotonic(), _CHECK)
        ready = self._printed.poll(self._answers, 0 if ended else max(left, 0))
        chunk = os.read(self._answers, 2**20) if ready else b""
        if chunk:
            self._received.add(chunk)
        elif ready or ended:
            raise PluginError(self._watch.suspect, self._ending())

    def _ending(self) -> str:
        if not ends_within(self._pid, _CLOSED) or self.kill() == DISCONNECTED:
            return "closed the connection of its process"
        return f"its process {ending(self.kill())}"

    def kill(self) -> int:
        """End the child and all of its process group; its exit status."""
        if self._status is None:
            try:
                self._status = end_group(self._pid, _KILL)
            finally:
                self._signals.restore()
                self._close()
        return self._status

    def _close(self) -> None:
        self._printed.close()
        os.close(self._questions)
        os.close(self._answers)


class _Printed:
    """What the child prints; the beginning is passed on to standard error.

    No process that a plugin leaves behind holds this process's own descriptors: its caller
    may wait until the last copy of them is closed.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._left = _PRINTED
        self._open = True

    def poll(self, answers: int, seconds: float) -> bool:
        """Wait for what is printed, or for ``answers``; whether there is something in that."""
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        if self._open:
            poll.register(self._read_end, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(seconds * 1000)]
        if self._read_end in ready:
            self._pass_on()
        return answers in ready

    def _pass_on(self) -> bool:
        """Pass on a piece; whether there was any."""
        chunk = os.read(self._read_end, 2**16)
        self._open = bool(chunk)
        with suppress(OSError):
            os.write(2, chunk[: self._left])
        self._left -= min(len(chunk), self._left)
        return self._open

    def close(self) -> None:
        """Pass on what is left and close."""
        os.set_blocking(self._read_end, False)
        with suppress(BlockingIOError):
            while self._left and self._pass_on():
                pass
        os.close(self._read_end)


class _Signals:
    """Has the signals that end this process end the child before."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # Those that are ignored, as behind nohup, stay so.
            wanted = [n for n in _ENDING if signal.getsignal(n) not in (signal.SIG_IGN, None)]
            self._before = {number: signal.signal(number, self._end) for number in wanted}

    def _end(self, number: int, frame: FrameType | None) -> None:
        # Its supervisor ends whatever else is below it, too.
        signal_group(self._pid, signal.SIGTERM)
        self.restore()
        os.kill(os.getpid(), number)

    def restore(self) -> None:
        """Handle them as before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
