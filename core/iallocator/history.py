"""The last requests and their answers, kept because Ganeti deletes its own copy at once.

A ring of directories, readable for root only, each written under another name first and
then renamed, so that a reader never sees half of one.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.safe_files import UnsafeFile, make_directory, read_own

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

#: No call is as late, in ns since the epoch: the year 2262.
_LAST: Final = 2**63

#: Longer than any call, in ns; Ganeti gives up after a quarter of it.
_LONGEST: Final = 3600 * 10**9

#: What the ring's entries are called: time, process, cluster.  The directory may hold other
#: things, which stay.
_NAME: Final = re.compile(r"\d{20}-\d+(?:-([A-Za-z0-9][A-Za-z0-9.-]*))?")

#: Names of clusters that can be part of the name of a directory.
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,199}")

#: Instances that are named; the others are counted.
_NAMED_INSTANCES: Final = 5

#: Characters of a name: of one in the DNS, and more than Ganeti allows.
_LONGEST_NAME: Final = 255

#: What stands for the one before the last.
PREVIOUS: Final = "previous"


class Call(NamedTuple):
    """One call of the allocator, without its input and output."""

    started: int
    """ns since the epoch"""
    pid: int
    arguments: tuple[str, ...]
    """the options behind the file name"""
    status: int
    """exit status"""
    type: str = ""
    """of the request; empty: not known"""
    instances: str = ""
    """see `About`"""
    left_out: int = 0
    """number of instances without a place, where the others have one"""


class Entry(NamedTuple):
    """One kept call."""

    name: str
    call: Call
    request: bytes
    answer: bytes
    """standard output, or the error text when the exit status is not 0"""


def record(config: History, call: Call, request: bytes, answer: bytes, cluster: str = "") -> None:
    """Keep one call and drop the oldest ones; raises StewardError when that is impossible.

    ``cluster``: whose request it is; each cluster has a ring of its own.
    """
    if not config.keep or not config.directory:
        return
    known = f"-{cluster}" if _CLUSTER.fullmatch(cluster) else ""
    name = f"{call.started:020d}-{call.pid}{known}"
    new = os.path.join(config.directory, _UNFINISHED + name)
    try:
        make_directory(config.directory)
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
    size, kept = 0, Counter[str]()
    for number, name in enumerate(reversed(names(config))):
        size += _size(os.path.join(config.directory, name))
        kept[cluster_of(name)] += 1
        if number and (kept[cluster_of(name)] > config.keep or size > MOST_BYTES):
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
    """What is in the directory, nothing where there is none; raises StewardError."""
    try:
        return os.listdir(config.directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        raise StewardError(
            f"history {config.directory}: permission denied (only root can read it)"
        ) from None
    except OSError as err:
        raise StewardError(f"history {config.directory}: {reason_of(err)}") from None


def names(config: History) -> list[str]:
    """The kept calls by name, the oldest first; raises StewardError."""
    return sorted(name for name in _found(config) if _NAME.fullmatch(name))


def cluster_of(name: str) -> str:
    """The cluster of a kept call by its name; empty where it is not known."""
    found = _NAME.fullmatch(name)
    return (found[1] if found else None) or ""


def numbered(config: History, cluster: str) -> list[str]:
    """The kept calls of a cluster, the last one first: the first has the number 1.

    Those without a cluster count as well; where ``cluster`` is empty, all do.
    """
    found = reversed(names(config))
    return [name for name in found if not cluster or cluster_of(name) in ("", cluster)]


def entry(config: History, name: str = "", cluster: str = "") -> Entry:
    """One kept call by name or number, or the last one; raises StewardError when there is none.

    ``cluster``: the one whose calls are numbered.
    """
    chosen = _chosen(config, name, cluster)
    fault = f"history {config.directory}: {chosen} cannot be read"
    try:
        request, answer = (content(config, chosen, file) for file in (REQUEST, ANSWER))
    except (OSError, UnsafeFile) as err:
        raise StewardError(f"{fault}: {reason_of(err)}") from None
    return Entry(chosen, read_call(config, chosen), request, answer)


def read_call(config: History, name: str) -> Call:
    """A kept call without request and answer; raises StewardError."""
    try:
        call: dict[str, Any] = orjson.loads(content(config, name, CALL))
        arguments: Sequence[str] = call.pop("arguments")
        return _checked(Call(arguments=tuple(arguments), **call))
    except (OSError, UnsafeFile, ValueError, TypeError, KeyError, AttributeError) as err:
        fault = f"history {config.directory}: {name} cannot be read"
        raise StewardError(f"{fault}: {reason_of(err)}") from None


def _checked(call: Call) -> Call:
    """A call whose fields are of their kinds; raises ValueError."""
    numbers = (call.started, call.pid, call.status)
    if not (all(type(one) is int for one in numbers) and 0 <= call.started < _LAST):
        raise ValueError("something in it is of another kind than expected")
    if not all(isinstance(one, str) for one in call.arguments):
        raise ValueError("its arguments are no texts")
    return call


def content(config: History, name: str, file: str) -> bytes:
    """One file of a kept call; raises UnsafeFile, OSError."""
    return read_own(os.path.join(config.directory, name, file), _MOST_READ)


def _chosen(config: History, name: str, cluster: str) -> str:
    """The name of a kept call; raises StewardError."""
    where, known = f"history {config.directory}", names(config)
    if not known:
        raise StewardError(f"{where}: no request is kept there")
    if name in known:
        return name
    number = 2 if name == PREVIOUS else int(name or "1") if _is_number(name) else 0
    if not number:
        raise StewardError(f"{where}: no request is kept as {name!r}")
    own = numbered(config, cluster)
    if not own:
        others = ", ".join(sorted({cluster_of(one) for one in known}))
        raise StewardError(f"{where}: no request of {cluster} is kept there, only of {others}")
    if number > len(own):
        raise StewardError(f"{where}: there is no request {number}, {len(own)} are kept")
    return own[number - 1]


def _is_number(name: str) -> bool:
    return not name or (name.isascii() and name.isdigit() and len(name) < 9)


# -- what a message is about, for the log and for the list of kept requests


class About(NamedTuple):
    """The type of a request, the instances it is about, and the cluster; empty: not known."""

    type: str = ""
    instances: str = ""
    """names, separated by commas; where there are many, the first ones and how many more"""
    cluster: str = ""


def about(message: Mapping[str, Any]) -> About:
    """What a parsed message is about, as far as it can be read."""
    request, cluster = message.get("request"), _word(message.get("cluster_name"))
    if not isinstance(request, dict):
        return About(cluster=cluster)
    return About(_word(request.get("type")), _instances(request), cluster)


def _instances(request: Mapping[str, Any]) -> str:
    given = request.get("instances")
    if not isinstance(given, list):
        return _word(request.get("name"))
    names = [one.get("name") if isinstance(one, dict) else one for one in given[:_NAMED_INSTANCES]]
    more = [f"+{len(given) - _NAMED_INSTANCES}"] if len(given) > _NAMED_INSTANCES else []
    return ",".join([*(_word(name) or "?" for name in names), *more])


def _word(text: object) -> str:
    """A name as one word, whatever was sent."""
    if not isinstance(text, str) or not text:
        return ""
    text = text[:_LONGEST_NAME]
    return text if text.isprintable() and " " not in text else quoted(text).replace(" ", "_")
