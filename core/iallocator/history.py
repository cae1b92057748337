"""The last requests and their answers, kept because Ganeti deletes its own copy at once.

A ring of directories, readable for root only, each written under another name first and
then renamed, so that a reader never sees half of one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.safe_files import UnsafeFile, read_own

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import History

REQUEST: Final = "request.json"
ANSWER: Final = "answer.json"
CALL: Final = "call.json"
_UNFINISHED: Final = ".new-"

#: Bytes of one file that are read; an allocator's message has less.
_MOST_READ: Final = 2**28

#: Bytes of all kept calls together.
MOST_BYTES: Final = 2**30

#: Longer than any call, in ns; Ganeti gives up after a quarter of it.
_LONGEST: Final = 3600 * 10**9

#: What the ring's entries are called.  The directory may hold other things, which stay.
_NAME: Final = re.compile(r"\d{20}-\d+")


class Call(NamedTuple):
    """One call of the allocator, without its input and output."""

    started: int
    """ns since the epoch"""
    pid: int
    arguments: tuple[str, ...]
    """the options behind the file name"""
    status: int
    """exit status"""


class Entry(NamedTuple):
    """One kept call."""

    name: str
    call: Call
    request: bytes
    answer: bytes
    """standard output, or the error text when the exit status is not 0"""


def record(config: History, call: Call, request: bytes, answer: bytes) -> None:
    """Keep one call and drop the oldest ones; raises StewardError when that is impossible."""
    if not config.keep or not config.directory:
        return
    name = f"{call.started:020d}-{call.pid}"
    new = os.path.join(config.directory, _UNFINISHED + name)
    try:
        os.makedirs(config.directory, 0o700, exist_ok=True)
        _check_private(config.directory)
        os.mkdir(new, 0o700)
        files = {REQUEST: request, ANSWER: answer, CALL: orjson.dumps(call._asdict())}
        for file, content in files.items():
            with open(os.path.join(new, file), "wb", opener=_private) as handle:
                handle.write(content)
        os.rename(new, os.path.join(config.directory, name))
        _drop_old(config, call.started)
    except (OSError, ValueError) as err:
        _discard(new)
        raise StewardError(f"history {config.directory}: {reason_of(err)}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)


def _check_private(directory: str) -> None:
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise StewardError(f"history {directory}: it is no directory (a link is not followed)")
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StewardError(
            f"history {directory}: must belong to the user it is written by and be closed to "
            "others (mode 0700)"
        )


def _drop_old(config: History, started: int) -> None:
    for name in [*_old(config), *_abandoned(config, started)]:
        _discard(os.path.join(config.directory, name))


def _old(config: History) -> Iterator[str]:
    """What is too much, by number or by size; the last call always stays."""
    size = 0
    for number, name in enumerate(reversed(names(config))):
        size += _size(os.path.join(config.directory, name))
        if number and (number >= config.keep or size > MOST_BYTES):
            yield name


def _size(directory: str) -> int:
    """The bytes of one call."""
    size = 0
    for file in (REQUEST, ANSWER, CALL):
        with suppress(OSError):
            size += os.lstat(os.path.join(directory, file)).st_size
    return size


def _discard(directory: str) -> None:
    """Remove one call; what is not ours in it stays, and the directory with it."""
    with suppress(OSError):
        for file in (REQUEST, ANSWER, CALL):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, file))
        os.rmdir(directory)


def _abandoned(config: History, started: int) -> list[str]:
    """What killed processes left unfinished: no call takes as long as that."""
    unfinished = (name for name in _found(config) if name.startswith(_UNFINISHED))
    calls = {name: name.removeprefix(_UNFINISHED) for name in unfinished}
    return [
        name
        for name, call in calls.items()
        if _NAME.fullmatch(call) and int(call.partition("-")[0]) < started - _LONGEST
    ]


def _found(config: History) -> list[str]:
    try:
        return os.listdir(config.directory)
    except OSError:
        return []


def names(config: History) -> list[str]:
    """The kept calls by name, the oldest first."""
    return sorted(name for name in _found(config) if _NAME.fullmatch(name))


def entry(config: History, name: str = "") -> Entry:
    """One kept call by name, or the last one; raises StewardError when there is none."""
    known = names(config)
    if not known:
        raise StewardError(f"history {config.directory}: no request is kept there")
    chosen = name or known[-1]
    if chosen not in known:
        raise StewardError(f"history {config.directory}: no request is kept as {name!r}")

    def content(file: str) -> bytes:
        return read_own(os.path.join(config.directory, chosen, file), _MOST_READ)

    try:
        call: dict[str, Any] = orjson.loads(content(CALL))
        arguments: Sequence[str] = call.pop("arguments")
        then = Call(arguments=tuple(arguments), **call)
        return Entry(chosen, then, content(REQUEST), content(ANSWER))
    except (OSError, UnsafeFile, ValueError, TypeError, KeyError, AttributeError) as err:
        raise StewardError(f"history {config.directory}: {chosen} cannot be read: {err}") from None
