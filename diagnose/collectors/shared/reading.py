"""What a collector reads: files, directories, answers of programs; what is missing is not fine."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ganeti_steward.core.errors import reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.model.machine import Machine

_Kind = TypeVar("_Kind")

#: int() would take "1_0", and other alphabets' digits.
_NUMBER: Final = re.compile("-?[0-9]{1,100}")

_BOOT_TIME: Final = re.compile(r"btime ([0-9]{1,12})", re.MULTILINE)

#: Of a file or device that is not there (any more).
_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


class MissingData(ValueError):
    """Something a collector has to know is missing; the text is the end of a sentence."""


@contextmanager
def noting_unknowns(unknowns: list[str]) -> Iterator[None]:
    """Continue after what is missing or cannot be read, and add the reason to the unknowns."""
    try:
        yield
    except (OSError, ValueError) as err:
        unknowns.append(located_reason(err))


@contextmanager
def leaving_out_what_is_gone() -> Iterator[None]:
    """Continue after something that went away meanwhile; raises OSError for other failures."""
    try:
        yield
    except OSError as err:
        if err.errno not in _GONE:
            raise


def located_reason(err: OSError | ValueError) -> str:
    """What failed, with the file it is about: one line, the same for the same failure."""
    where = f"{err.filename}: " if isinstance(err, OSError) and err.filename else ""
    return printable(f"{where}{reason_of(err) or type(err).__name__}")


def text_of(machine: Machine, path: str) -> str:
    """A small file's text without the blanks around it; raises OSError."""
    return machine.read(path).decode(errors="replace").strip()


def text_if_there(machine: Machine, path: str) -> str:
    """The same, empty where there is no such file; raises OSError."""
    try:
        return text_of(machine, path)
    except FileNotFoundError:
        return ""


def number_of(machine: Machine, path: str) -> int:
    """A file that holds one whole number of 64 bits; raises OSError, ValueError."""
    text = text_of(machine, path)
    if not _NUMBER.fullmatch(text) or abs(int(text)) >= 2**64:
        # No counter of the kernel is larger; a float cannot hold every number.
        raise ValueError(f"{path} holds no number")
    return int(text)


def modified_if_there(machine: Machine, path: str) -> float:
    """When a file was last written or touched, seconds since the epoch; 0 where there is none.

    Raises OSError.
    """
    try:
        return machine.modified(path)
    except FileNotFoundError:
        return 0.0


def now(machine: Machine) -> float:
    """Seconds since the epoch, by the clock of the machine; raises OSError, ValueError."""
    started = _BOOT_TIME.search(text_of(machine, "/proc/stat"))
    if started is None:
        raise ValueError("/proc/stat does not have the time of the start")
    return int(started[1]) + float(text_of(machine, "/proc/uptime").split(" ")[0])


def ended(machine: Machine, *command: str) -> Ended:
    """Run a program that ends by itself; raises MissingData when it does not."""
    try:
        done = machine.run(*command)
    except OSError as err:
        raise MissingData(f"{command[0]} cannot be run: {err.strerror or err}") from err
    if done.fault:
        raise MissingData(f"{command[0]} was stopped: {done.fault}")
    if done.status < 0:
        raise MissingData(f"{command[0]} was ended by signal {-done.status}")
    return done


def succeeded(machine: Machine, *command: str) -> Ended:
    """Run a program that ends with status 0; raises MissingData when it does not."""
    done = ended(machine, *command)
    if done.status:
        raise MissingData(f"{command[0]} ended with status {done.status}")
    return done


def parsed(done: Ended, program: str) -> Any:
    """The JSON a program printed; raises MissingData."""
    try:
        return load_json(done.output)
    except ValueError as err:
        raise MissingData(f"{program} did not print JSON") from err


def member(data: Any, kind: type[_Kind], *path: str) -> _Kind:
    """What lies at a path of nested objects; raises MissingData when that is no ``kind``.

    A boolean is no number here.
    """
    for number, key in enumerate(path, 1):
        if not isinstance(data, dict) or key not in data:
            raise MissingData(f"{'.'.join(path[:number])} is missing")
        data = data[key]
    if type(data) is not kind:
        raise MissingData(f"{'.'.join(path) or 'the answer'} is not what it should be")
    return data


def optional(data: Any, kind: type[_Kind], *path: str) -> _Kind | None:
    """The same, None where the last key is not there at all; raises MissingData."""
    if path[-1] not in member(data, dict, *path[:-1]):
        return None
    return member(data, kind, *path)


def listed(machine: Machine, directory: str) -> tuple[str, ...]:
    """The names in a directory; raises MissingData."""
    try:
        return tuple(machine.listing(directory))
    except OSError as err:
        raise MissingData(f"{directory} cannot be read: {err.strerror}") from err


def listed_if_there(machine: Machine, directory: str) -> tuple[str, ...]:
    """The same, none where there is no such directory; raises MissingData."""
    try:
        return tuple(machine.listing(directory))
    except FileNotFoundError:
        return ()
    except OSError as err:
        raise MissingData(f"{directory} cannot be read: {err.strerror}") from err
