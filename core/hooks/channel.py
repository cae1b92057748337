"""Messages between the allocator and the child that runs site plugins.

A message is four bytes with its length, then the pickled value.  What the child sends is
read with care, as a plugin may write into the descriptor: only plain values and those of
`_MODULES` are made of it.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any, Final, NamedTuple

from ganeti_steward.core.pickled import pickled

#: Bytes of one message; explanations of a large batch take some tens of MB.
LONGEST: Final = 2**28

#: The only modules whose classes a message may name.
_MODULES: Final = (
    "ganeti_steward.core.maintenance.filter_action",
    "ganeti_steward.core.maintenance.task",
    "ganeti_steward.core.model.answer",
    "ganeti_steward.core.model.explanation",
)

_HEAD: Final = 4


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

_KINDS: Final = {kind.__name__: kind for kind in (Begin, End, Done, Failed)}


class BadMessageError(Exception):
    """The bytes are no message."""


def packed(value: object) -> bytes:
    """A value as one message; raises what pickle raises."""
    body = pickled(value)
    return len(body).to_bytes(_HEAD, "big") + body


def packed_message(message: Message) -> bytes:
    """A message of the child; raises what pickle raises, and BadMessageError.

    Its value is read once here, so that an unreadable value fails in the child.
    """
    raw = packed((type(message).__name__, *message))
    if isinstance(message, Done):
        _value(raw[_HEAD:])
    if len(raw) > LONGEST:
        raise BadMessageError(f"it takes {len(raw)} bytes")
    return raw


class Received:
    """Bytes from the child, cut into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take what was read."""
        self._bytes += chunk

    def next(self) -> Message | None:
        """The next whole message, None while it is not there; raises BadMessageError."""
        if len(self._bytes) < _HEAD:
            return None
        end = _HEAD + int.from_bytes(self._bytes[:_HEAD], "big")
        if end > LONGEST:
            raise BadMessageError("the message is too long")
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_HEAD:end])
        del self._bytes[:end]
        return _message(body)


def _message(body: bytes) -> Message:
    value = _value(body)
    try:
        kind, *fields = value
        message: Message = _KINDS[kind](*fields)
    except (TypeError, ValueError, KeyError):
        raise BadMessageError("not one of the messages") from None
    return message


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in _MODULES and "." not in name:
            return super().find_class(module, name)
        raise BadMessageError(f"it holds a {name} of {module}")


def _value(body: bytes) -> Any:
    try:
        return _Reader(io.BytesIO(body)).load()
    except BadMessageError:
        raise
    except Exception as err:
        raise BadMessageError(f"it cannot be read: {type(err).__name__}") from None


def read_value(descriptor: int) -> Any:
    """The next message from the parent, waiting for it; raises EOFError at the end."""
    length = int.from_bytes(_read(descriptor, _HEAD), "big")
    return pickle.loads(_read(descriptor, length))


def _read(descriptor: int, number: int) -> bytes:
    found = b""
    while len(found) < number:
        chunk = os.read(descriptor, number - len(found))
        if not chunk:
            raise EOFError
        found += chunk
    return found


def write_all(descriptor: int, raw: bytes) -> None:
    """Write a whole message, waiting for the reader; raises OSError."""
    left = memoryview(raw)
    while left:
        left = left[os.write(descriptor, left) :]
