"""The child that runs site plugins: it answers its parent's questions and reports each call.

A plugin may write into the descriptor of its process, so
all that comes from there is read with care: what is not of the types that the caller expects is a
broken connection.
"""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from io import BufferedWriter
from typing import Any, Final, NamedTuple, get_type_hints

import orjson

from ganeti_steward.core.builtins import target
from ganeti_steward.core.errors import BadSettings, PluginError
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.json_nesting import DEEPEST, check_nesting, load_json
from ganeti_steward.core.process import forked
from ganeti_steward.core.process.frames import LONGEST, Frames, frame
from ganeti_steward.core.process.supervisor import Limits, Supervisor, supervisor_program
from ganeti_steward.core.typed_json import from_json, to_json

#: Makes the object whose methods answer the questions; loads plugins, and raises PluginError.
Serve = Callable[[], object]

#: Starts a child: gets what it serves, and its descriptors for questions and answers; raises
#: OSError.
Start = Callable[[Serve, int, int], Supervisor]

#: Bytes of memory the child may use beyond what its parent uses.
MEMORY_LIMIT: Final = 4 * 2**30

#: The exit status of a child that cannot reach its parent any more.
DISCONNECTED: Final = 97

#: Characters of a traceback that are logged.
_TRACEBACK: Final = 20_000


# -- Messages


class Begin(NamedTuple):
    """A plugin is called."""

    plugin: str
    limit: float
    """seconds"""


class End(NamedTuple):
    """The call that began last has ended."""


class Done(NamedTuple):
    """The question is answered."""

    value: Any
    """JSON of the type that the method is annotated with"""


class Failed(NamedTuple):
    """The question ended with a PluginError."""

    plugin: str
    fault: str
    faults: tuple[str, ...]
    """of BadSettings; empty for another PluginError"""
    traceback: str
    """of what the plugin raised; empty for none"""
    last: bool
    """whether the child is not fit for another question"""


Message = Begin | End | Done | Failed


class BadMessageError(Exception):
    """The bytes are no message."""


class Received:
    """Bytes from the child, cut into messages."""

    def __init__(self) -> None:
        self._frames = Frames()

    def add(self, chunk: bytes) -> None:
        """Take what was read."""
        self._frames.received += chunk

    def next(self) -> Message | None:
        """The next whole message, None while it is not there; raises BadMessageError."""
        try:
            content = self._frames.next()
            return None if content is None else _message(content)
        except ValueError as err:
            raise BadMessageError(str(err)) from None


def _message(content: bytes) -> Message:
    try:
        check_nesting(content)
        data = orjson.loads(content)
    except ValueError:
        raise ValueError("it is not JSON") from None
    # What a type checker does not know: a union is a type, too.
    kind: Any = Message
    message: Message = from_json(kind, data)
    return message


def packed_question(method: Callable[..., object], arguments: Sequence[object]) -> bytes:
    """The call of a method, by the types it is annotated with."""
    kinds, _ = signature(method)
    call = [method.__name__, *map(to_json, kinds, arguments)]
    try:
        return frame(orjson.dumps(call))
    except TypeError:
        # What the daemon has read may hold lone surrogates and integers beyond 64 bits.
        return frame(json.dumps(call).encode())


@cache
def signature(method: Callable[..., object]) -> tuple[tuple[Any, ...], Any]:
    """The types of what a method takes, without ``self``, and of what it returns."""
    *takes, returns = get_type_hints(method).values()
    return tuple(takes), returns


# -- The child

#: Nothing of a plugin's is given time to end by itself.
_LIMITS: Final = Limits(ladder=((signal.SIGKILL, 1.0),))


def forked_child(serve: Serve, questions: int, answers: int) -> Supervisor:
    """Fork a child; only for a process that has no other threads."""
    worker = partial(_answer_all, serve, questions, answers)
    return Supervisor(worker, _LIMITS, (questions, answers))


def program_child(serve: Serve, questions: int, answers: int) -> Supervisor:
    """A child that is a program of its own, for a process with several threads.

    ``serve``: a `partial` of a class with a configuration and a tuple with names of plugins.
    """
    from ganeti_steward.core.config.written import config_text

    assert isinstance(serve, partial)
    kind, (config, load) = serve.func, serve.args
    served = f"{kind.__module__}:{kind.__name__}"
    worker: Any = _Served(served, config_text(config), load, questions, answers)
    return Supervisor(worker, _LIMITS, (questions, answers), supervisor_program)


class _Served(NamedTuple):
    """The worker of a program."""

    served: str
    """a class, as ``module:name``; it is made of the configuration and the names"""
    config: str
    """the text of a file"""
    load: tuple[str, ...]
    """names of plugins"""
    questions: int
    answers: int

    def __call__(self, output: int) -> None:
        """Answer as a fork does."""
        from ganeti_steward.core.config.parse import parse_config

        config = parse_config("of the caller", self.config.encode())
        serve = partial(target(self.served), config, self.load)
        _answer_all(serve, self.questions, self.answers, output)


def _answer_all(serve: Serve, questions: int, answers: int, output: int) -> None:
    """Answer until the parent closes ``questions``; these are descriptors."""
    os.close(output)
    forked.reset_signals()
    forked.limit_memory(MEMORY_LIMIT)
    sender = _Sender(answers)
    timed_call.report_to(sender)
    served: object = None
    while question := _next_question(questions):
        # Values that the parent has read, in its own ones.
        name, *arguments = load_json(question, longest=len(question), deepest=2 * DEEPEST)
        try:
            served = served or serve()
            message: Message = Done(_answer(served, name, arguments, sender))
        except PluginError as err:
            message = _failed(err)
        sender.send(message)
        if isinstance(message, Failed) and message.last:
            return


def _next_question(descriptor: int) -> bytes | None:
    """The next question; waits for it.  None at the end."""
    frames = Frames()
    while chunk := os.read(descriptor, 2**20):
        frames.received += chunk
        if content := frames.next():
            return content
    return None


class _Sender:
    """Sends messages to the parent; without a connection to it the child ends."""

    def __init__(self, descriptor: int) -> None:
        self._file: BufferedWriter = open(descriptor, "wb")  # noqa: SIM115 - as above
        self._own = os.getpid()
        self.plugin = ""
        """the plugin that was called last"""

    def begin(self, plugin: str, limit: float) -> None:
        self.plugin = plugin
        self.send(Begin(plugin, limit))

    def end(self) -> None:
        self.send(End())

    def send(self, message: Message) -> None:
        raw = self._packed(message)
        if os.getpid() != self._own:
            # A process that a plugin forked, and that returned from the plugin's function.
            os._exit(1)
        try:
            self._file.write(raw)
            self._file.flush()
        except OSError:
            os._exit(DISCONNECTED)

    def _packed(self, message: Message) -> bytes:
        try:
            raw = frame(orjson.dumps(to_json(Message, message)))
            fault = f"it takes {len(raw)} bytes" if len(raw) > LONGEST else ""
        except (TypeError, ValueError) as err:
            raw, fault = b"", str(err)
        if not fault:
            return raw
        return self._packed(Failed(self.plugin, _wrong(fault), (), "", last=False))


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


def _wrong(fault: object) -> str:
    return f"gave a wrong value: {fault}"


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
