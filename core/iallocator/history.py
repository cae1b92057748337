"""The last requests and their answers, kept because Ganeti deletes its own copy at once.

A ring of directories, readable for root only, each written under another name first and
then renamed, so that a reader never sees half of one.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.records import NamedTuple
from ganeti_steward.core.safe_files import make_directory

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import History

REQUEST: Final = "request.json"
ANSWER: Final = "answer.json"
CALL: Final = "call.json"
_UNFINISHED: Final = ".new-"


#: Bytes of all kept calls together.
MOST_BYTES: Final = 2**30


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


def placed_folder(config: History) -> str:
    """Where the places of the last minutes are, beside the ring; empty where nothing is kept."""
    above = os.path.dirname(config.directory.rstrip("/"))
    return os.path.join(above, "placed") if config.keep and config.directory else ""


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
        for old in [*_old(config), *_abandoned(config, call.started)]:
            _discard(os.path.join(config.directory, old))
    except (OSError, ValueError) as err:
        _discard(new)
        raise StewardError(f"history {config.directory}: {reason_of(err)}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)


def _check_private(directory: str) -> None:
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise StewardError(f"history {directory}: it is not a directory (a link is not followed)")
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StewardError(
            f"history {directory}: must belong to the user it is written by and be closed to "
            "others (mode 0700)"
        )


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
