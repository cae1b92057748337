"""Messages between a process and the child that runs site plugins.

A message is four bytes with its length, then JSON.  A plugin may write into the descriptor of its
process, so all that comes from there is read with care: what is not of the types that the caller
expects is a broken connection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, get_type_hints

import orjson

from ganeti_steward.core.json_nesting import DEEPEST, check_nesting, load_json
from ganeti_steward.core.typed_json import from_json, to_json

#: Bytes of one message; explanations of a large batch take some tens of MB.
LONGEST: Final = 2**28

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


def packed_message(message: Message) -> bytes:
    """A message of the child; raises BadMessageError."""
    try:
        raw = _packed(orjson.dumps(to_json(Message, message)))
    except (TypeError, ValueError) as err:
        raise BadMessageError(str(err)) from None
    if len(raw) > LONGEST:
        raise BadMessageError(f"it takes {len(raw)} bytes")
    return raw


def _packed(body: bytes) -> bytes:
    return len(body).to_bytes(_HEAD, "big") + body


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
    try:
        check_nesting(body)
        data = orjson.loads(body)
    except ValueError:
        raise BadMessageError("it is no JSON") from None
    try:
        # What a type checker does not know: a union is a type, too.
        kind: Any = Message
        message: Message = from_json(kind, data)
    except ValueError as err:
        raise BadMessageError(str(err)) from None
    return message


def packed_question(method: Callable[..., object], arguments: Sequence[object]) -> bytes:
    """The call of a method, by the types it is annotated with."""
    kinds, _ = signature(method)
    call = [method.__name__, *map(to_json, kinds, arguments)]
    try:
        return _packed(orjson.dumps(call))
    except TypeError:
        # What the daemon has read may hold lone surrogates and integers beyond 64 bits.
        return _packed(json.dumps(call).encode())


@cache
def signature(method: Callable[..., object]) -> tuple[tuple[Any, ...], Any]:
    """The types of what a method takes, without ``self``, and of what it returns."""
    *takes, returns = get_type_hints(method).values()
    return tuple(takes), returns


def read_question(descriptor: int) -> tuple[str, list[Any]]:
    """The parent's next question: the name of a method, and its arguments as JSON.

    Waits for it; raises EOFError at the end.
    """
    length = int.from_bytes(_read(descriptor, _HEAD), "big")
    # Values that the parent has read, in its own ones.
    name, *arguments = load_json(_read(descriptor, length), longest=length, deepest=2 * DEEPEST)
    return name, arguments


def _read(descriptor: int, number: int) -> bytes:
    found = bytearray()
    while len(found) < number:
        chunk = os.read(descriptor, number - len(found))
        if not chunk:
            raise EOFError
        found += chunk
    return bytes(found)


def write_all(descriptor: int, raw: bytes) -> None:
    """Write a whole message, waiting for the reader; raises OSError."""
    left = memoryview(raw)
    while left:
        left = left[os.write(descriptor, left) :]
