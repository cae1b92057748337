"""Kept requests in commands: those of this cluster, by number, and what each was about."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from ganeti_steward.core.config.values import History
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.ganeti.this_node import cluster_name
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.safe_files import UnsafeFile, read_own
from ganeti_steward.core.typed_json import from_json

#: Bytes of one file that are read; an allocator's message has less.
_MOST_READ: Final = 2**28

#: No call is as late, in ns since the epoch: the year 2262.
_LAST: Final = 2**63

#: What stands for the one before the last.
PREVIOUS: Final = "previous"


class Entry(NamedTuple):
    """One kept call."""

    name: str
    call: history.Call
    request: bytes
    answer: bytes
    """standard output, or the error text when the exit status is not 0"""


#: What a command takes as one kept request.
WHICH: Final = (
    f"a number (1 is the last one), {PREVIOUS!r} (2), a name, or an instance: its last one"
)

#: The type of which a part can be done.
_BATCH: Final = "multi-allocate"

#: The fields of `rows`: name -> heading.
FIELDS: Final = {
    "number": "#",
    "time": "Time",
    "type": "Type",
    "instances": "Instance",
    "answer": "Answer",
    "name": "Name",
}


def kept_request(config: History, which: str = "") -> Entry:
    """A kept request of this cluster, see `WHICH`; empty: the last.  Raises StewardError."""
    found = entry(config, which, cluster_name())
    if found.call.type:
        return found
    what = history.about(_object(found.request))
    return found._replace(call=found.call._replace(type=what.type, instances=what.instances))


def described(entry: Entry) -> str:
    """``allocate inst1.lab, 2026-11-21 01:53:11``."""
    call = entry.call
    return f"{call.type or 'request'} {call.instances or '-'}, {_time(call)}"


def rows(config: History) -> Iterator[tuple[str, ...]]:
    """Each kept request, the oldest first; those of other clusters have no number."""
    numbers = {name: at for at, name in enumerate(numbered(config, cluster_name()), 1)}
    for name in history.names(config):
        number = str(numbers.get(name, "-"))
        try:
            call = read_call(config, name)
            # A request can have many MB, and its own description is beside it.
            call = call if call.type else kept_request(config, name).call
            word = _answer(content(config, name, history.ANSWER), call)
        except (OSError, StewardError):
            # Dropped from the ring meanwhile, or no kept request at all.
            yield number, "-", "-", "-", "unreadable", name
        else:
            yield number, _time(call), call.type or "-", call.instances or "-", word, name


def _time(call: history.Call) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.started // 10**9))


def _answer(raw: bytes, call: history.Call) -> str:
    """How it ended: Ganeti creates a part of a batch, but moves all instances or none."""
    answer, left = _object(raw), call.left_out
    if not answer:
        return "error"
    if not answer.get("success"):
        return f"failure ({left} left out)" if left else "failure"
    word = "partial" if call.type == _BATCH else "none moved"
    return f"{word} ({left} left out)" if left else "success"


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


# -- reading what is kept


def numbered(config: History, cluster: str) -> list[str]:
    """The kept calls of a cluster, the last one first: the first has the number 1.

    Those without a cluster count as well; where ``cluster`` is empty, all do.
    """
    found = reversed(history.names(config))
    return [name for name in found if not cluster or history.cluster_of(name) in ("", cluster)]


def entry(config: History, name: str = "", cluster: str = "") -> Entry:
    """One kept call by name or number, or the last one; raises StewardError when there is none.

    ``cluster``: the one whose calls are numbered.
    """
    chosen = _chosen(config, name, cluster)
    fault = f"history {config.directory}: {chosen} cannot be read"
    try:
        request, answer = (
            content(config, chosen, file) for file in (history.REQUEST, history.ANSWER)
        )
    except (OSError, UnsafeFile) as err:
        raise StewardError(f"{fault}: {reason_of(err)}") from None
    return Entry(chosen, read_call(config, chosen), request, answer)


def read_call(config: History, name: str) -> history.Call:
    """A kept call without request and answer; raises StewardError."""
    try:
        call = from_json(history.Call, orjson.loads(content(config, name, history.CALL)))
        if not 0 <= call.started < _LAST:
            raise ValueError(f"key 'started': {call.started} is not a time")
    except (OSError, UnsafeFile, ValueError) as err:
        fault = f"history {config.directory}: {name} cannot be read"
        raise StewardError(f"{fault}: {reason_of(err)}") from None
    return call


def content(config: History, name: str, file: str) -> bytes:
    """One file of a kept call; raises UnsafeFile, OSError."""
    return read_own(os.path.join(config.directory, name, file), _MOST_READ)


def _chosen(config: History, name: str, cluster: str) -> str:
    """The name of a kept call; raises StewardError."""
    where, known = f"history {config.directory}", history.names(config)
    if not known:
        raise StewardError(f"{where}: no request is kept there")
    if name in known:
        return name
    number = 2 if name == PREVIOUS else int(name or "1") if _is_number(name) else 0
    if not number and (last := _last_about(config, name, cluster)):
        return last
    if not number:
        raise StewardError(f"{where}: no request is kept as {name!r}")
    own = numbered(config, cluster)
    if not own:
        others = ", ".join(sorted({history.cluster_of(one) for one in known}))
        raise StewardError(f"{where}: no request of {cluster} is kept there, only of {others}")
    if number > len(own):
        raise StewardError(f"{where}: there is no request {number}, {len(own)} are kept")
    return own[number - 1]


def _last_about(config: History, instance: str, cluster: str) -> str:
    """The name of the last kept call about an instance, whose domain may be left out, or empty."""
    for kept in numbered(config, cluster):
        with suppress(StewardError):
            named = read_call(config, kept).instances.split(",")
            if any(one == instance or one.startswith(f"{instance}.") for one in named):
                return kept
    return ""


def _is_number(name: str) -> bool:
    return not name or (name.isascii() and name.isdigit() and len(name) < 9)
