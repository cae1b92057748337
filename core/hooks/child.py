"""The child that runs site plugins: it answers its parent's questions and reports each call."""

from __future__ import annotations

import fcntl
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from ganeti_steward.core import forked
from ganeti_steward.core.errors import BadSettings, PluginError
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.hooks.channel import (
    BadMessageError,
    Begin,
    Done,
    End,
    Failed,
    Message,
    packed_message,
    read_question,
    signature,
    write_all,
)
from ganeti_steward.core.typed_json import from_json, to_json

#: Makes the object whose methods answer the questions; loads plugins, and raises PluginError.
Serve = Callable[[], object]

#: Starts a child: gets what it serves, and its descriptors for questions, answers and errors;
#: returns its process id, raises OSError.
Start = Callable[[Serve, int, int, int], int]

#: Bytes of memory the child may use beyond what its parent uses.
MEMORY_LIMIT: Final = 4 * 2**30

#: The exit status of a child that cannot reach its parent any more.
DISCONNECTED: Final = 97

#: Characters of a traceback that are logged.
_TRACEBACK: Final = 20_000


def forked_child(serve: Serve, questions: int, answers: int, errors: int) -> int:
    """Fork a child; only for a process that has no other threads."""
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        run_child(serve, questions, answers, errors, parent)
    return pid


def run_child(serve: Serve, questions: int, answers: int, errors: int, parent: int) -> NoReturn:
    """Answer until the parent closes ``questions``; the arguments are descriptors, and its id."""
    status = 1
    try:
        # Out of the way of the standard streams, should the parent have closed some of them.
        questions, answers, errors = (
            fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
            for descriptor in (questions, answers, errors)
        )
        forked.detach((questions, answers), errors)
        forked.reset_signals()
        # Only where there are foreign plugins.
        from ganeti_steward.core.supervision.overseen import continue_overseen

        continue_overseen(parent, (questions, answers))
        forked.limit_memory(MEMORY_LIMIT)
        sender = _Sender(answers)
        timed_call.report_to(sender)
        _answer_all(serve, questions, sender)
        status = 0
    finally:
        # None of the parent's handlers at exit, and no thread of a plugin is waited for.
        os._exit(status)


class _Sender:
    """Sends messages to the parent; without a connection to it the child ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._own, self._plugin = descriptor, os.getpid(), ""

    @property
    def plugin(self) -> str:
        """The plugin that was called last."""
        return self._plugin

    def begin(self, plugin: str, limit: float) -> None:
        self._plugin = plugin
        self.send(packed_message(Begin(plugin, limit)))

    def end(self) -> None:
        self.send(packed_message(End()))

    def send(self, raw: bytes) -> None:
        if os.getpid() != self._own:
            # A process that a plugin forked, and that returned from the plugin's function.
            os._exit(1)
        try:
            write_all(self._descriptor, raw)
        except OSError:
            os._exit(DISCONNECTED)


def _answer_all(serve: Serve, questions: int, sender: _Sender) -> None:
    served: object = None
    while True:
        try:
            name, arguments = read_question(questions)
        except EOFError:
            return
        try:
            served = served or serve()
            message: Message = Done(_answer(served, name, arguments, sender))
        except PluginError as err:
            message = _failed(err)
        sender.send(_packed(message, sender.plugin))
        if isinstance(message, Failed) and message.last:
            return


def _answer(served: object, name: str, arguments: Sequence[Any], sender: _Sender) -> Any:
    """What a method returns, as JSON; raises PluginError."""
    takes, returns = signature(getattr(type(served), name))
    try:
        return leaving(returns, getattr(served, name)(*map(from_json, takes, arguments)))
    except BadMessageError as err:
        raise PluginError(sender.plugin, _wrong(err)) from None


def leaving(kind: Any, value: object) -> Any:
    """A value for the parent as JSON; raises BadMessageError unless it is of that type."""
    try:
        return to_json(kind, value)
    except Exception as err:
        # Of a plugin's own classes, anything.
        raise BadMessageError(timed_call.sentence(err).removeprefix("ValueError: ")) from None


def _wrong(err: BadMessageError) -> str:
    return f"gave a wrong value: {err}"


def _failed(err: PluginError) -> Failed:
    cause: Any = err.__cause__
    faults = err.faults if isinstance(err, BadSettings) else ()
    if cause is None:
        return Failed(err.plugin, err.fault, faults, "", last=False)
    # The frames hold what has used up the memory.
    traceback.clear_frames(cause.__traceback__)
    text = "".join(traceback.format_exception(cause))[-_TRACEBACK:]
    text = text.encode(errors="backslashreplace").decode()
    return Failed(err.plugin, err.fault, faults, text, last=isinstance(cause, MemoryError))


def _packed(message: Message, plugin: str) -> bytes:
    try:
        return packed_message(message)
    except BadMessageError as err:
        return packed_message(Failed(plugin, _wrong(err), (), "", last=False))
