"""Plugins that are not built in run in a child process; this process keeps their time limits.

The child reports which plugin begins and ends when.  An endless loop, a C library that never
returns, a crash, an exit or memory without end therefore ends as `PluginError` of that plugin,
and the child is killed with everything that it has started.  Where only built-in plugins are
configured, nothing is forked.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.errors import BadSettings, PluginError
from ganeti_steward.core.hooks.child import (
    DISCONNECTED,
    BadMessageError,
    Begin,
    Done,
    End,
    Failed,
    Received,
    Serve,
    Start,
    forked_child,
    leaving,
    packed_question,
    signature,
)
from ganeti_steward.core.hooks.timed_call import too_late
from ganeti_steward.core.process.following import ending
from ganeti_steward.core.process.supervisor import pipe
from ganeti_steward.core.typed_json import from_json

_T = TypeVar("_T")

#: Seconds a child has to end after it closed its connection.
_CLOSED: Final = 0.5

#: Seconds the child may take where no plugin is called: it starts, or checks a result.
BETWEEN: Final = 30.0

#: Seconds a call may be given, and a question may take: a plugin can write reports of calls.
LONGEST_CALL: Final = 3600.0
LONGEST: Final = 2 * LONGEST_CALL

#: Seconds between two attempts to send where nothing is read.
_CHECK: Final = 0.05

#: Calls under way at a time.
_DEEPEST: Final = 100

#: In the place of a type: that of the method's annotation.
_ANNOTATED: Final = object()


class _InChildError(Exception):
    """Stands for what a plugin raised in the child; its text is the traceback."""


class Isolated:
    """A child that answers questions; started for the first one, and after it was killed."""

    def __init__(self, serve: Serve, names: Sequence[str], start: Start = forked_child) -> None:
        """``serve`` runs in the child and makes the object that answers; ``names``: plugins.

        ``start``: where this process has other threads, `child.program_child`.
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

    def ask(self, method: Callable[..., _T], *arguments: object, kind: Any = _ANNOTATED) -> _T:
        """What a method of the object returns in the child; raises PluginError.

        Arguments and result are sent as JSON by the types of the method's annotations.  ``kind``:
        the type of the result where the method returns JSON itself.
        """
        try:
            question = self._packed(method, arguments)
            if self._child is None:
                self._child = _Child(self._serve, Watch(self._names, built_in), self._start)
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
    """One child process."""

    def __init__(self, serve: Serve, watch: Watch, start: Start) -> None:
        self._watch, self._received = watch, Received()
        self._status: int | None = None
        questions, self._questions = pipe()
        self._answers, answers = pipe()
        try:
            self._supervisor = start(serve, questions, answers)
        except OSError as err:
            self._close()
            raise PluginError(watch.suspect, f"cannot be run: {err.strerror}") from None
        finally:
            os.close(questions)
            os.close(answers)
        os.set_blocking(self._questions, False)
        self._poll = select.poll()
        for descriptor in (self._answers, self._supervisor.fileno()):
            self._poll.register(descriptor, select.POLLIN)

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

    def _send(self, rest: memoryview) -> None:
        while rest:
            try:
                rest = rest[os.write(self._questions, rest) :]
            except (BlockingIOError, BrokenPipeError):
                # It reads nothing: it has ended, or a thread of a plugin keeps it from running.
                self._wait(_CHECK)

    def _wait(self, longest: float = LONGEST) -> None:
        """Read what comes next; raises PluginError when the child has to be killed."""
        late = self._watch.overdue(time.monotonic())
        if late:
            raise late
        seconds = max(self._watch.deadline() - time.monotonic(), 0)
        ready = [descriptor for descriptor, _ in self._poll.poll(1000 * min(seconds, longest))]
        chunk = os.read(self._answers, 2**20) if self._answers in ready else b""
        if chunk:
            self._received.add(chunk)
        elif ready:
            raise PluginError(self._watch.suspect, self._ending())

    def _ending(self) -> str:
        ended = self._supervisor.read_until(time.monotonic() + _CLOSED)
        status = self.kill()
        if not ended or status == DISCONNECTED:
            return "closed the connection of its process"
        return f"its process {ending(status)}"

    def kill(self) -> int:
        """End the child and everything below it; its exit status.

        What was printed is passed on to standard error.
        """
        if self._status is None:
            self._supervisor.stop()
            try:
                ended = self._supervisor.finish().ended
            finally:
                self._close()
            self._status = ended.status
            with suppress(OSError):
                os.write(2, ended.errors)
        return self._status

    def _close(self) -> None:
        os.close(self._questions)
        os.close(self._answers)


class _Call(NamedTuple):
    plugin: str
    limit: float
    """seconds"""
    deadline: float


class Watch:
    """Which calls are under way in a child, the innermost last, and which of them is overdue.

    Times are those of one monotonic clock, in seconds.
    """

    def __init__(self, names: str, built_in: Callable[[str], object]) -> None:
        """``names``: what a fault is about before any plugin was called."""
        self._calls: list[_Call] = []
        self._last, self._built_in = names, built_in
        self._since = self._last_moment = 0.0

    def start(self, now: float) -> None:
        """A question is sent: no call is under way."""
        self._calls.clear()
        self._since, self._last_moment = now, now + LONGEST

    def take(self, message: Begin | End, now: float) -> None:
        """A call has begun, or the innermost one has ended; raises BadMessageError."""
        self._since = now
        if isinstance(message, Begin):
            plugin, limit = message
            if not 0 < limit <= LONGEST_CALL or len(self._calls) >= _DEEPEST:
                raise BadMessageError("it reports a call that cannot be")
            self._calls.append(_Call(plugin, limit, now + limit))
            if not self._built_in(plugin):
                self._last = plugin
        elif self._calls:
            self._calls.pop()

    def deadline(self) -> float:
        """When the child has to be stopped unless it reports something before."""
        first = min((call.deadline for call in self._calls), default=self._since + BETWEEN)
        return min(first, self._last_moment)

    def overdue(self, now: float) -> PluginError | None:
        """Why the child has to be stopped now; None while it need not."""
        if now < self.deadline():
            return None
        if now >= self._last_moment:
            return PluginError(self.suspect, too_late(self.suspect, self.suspect, LONGEST))
        if not self._calls:
            return PluginError(self._last, too_late(self._last, self._last, BETWEEN))
        owner = min(self._calls, key=lambda call: call.deadline)
        stopped = self._calls[-1].plugin
        return PluginError(stopped, too_late(stopped, owner.plugin, owner.limit))

    @property
    def suspect(self) -> str:
        """The plugin a crash is put down to: the innermost call's, unless that is built in.

        A built-in plugin does not crash; a thread of one that was called before may.
        """
        innermost = self._calls[-1].plugin if self._calls else self._last
        return self._last if self._built_in(innermost) else innermost
