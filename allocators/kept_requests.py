"""Kept requests in commands: those of this cluster, by number, and what each was about."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import orjson

from ganeti_steward.core.config.values import History
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.this_node import cluster_name
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.iallocator.history import Call, Entry, about

#: What a command takes as one kept request.
WHICH: Final = f"a number (1 is the last one), {history.PREVIOUS!r} (2) or a name"

#: The type of which a part can be done.
_BATCH: Final = "multi-allocate"

#: The headings of `rows`.
HEADINGS: Final = ("#", "Time", "Type", "Instance", "Answer", "Name")


def kept_request(config: History, which: str = "") -> Entry:
    """A kept request of this cluster, see `WHICH`; empty: the last.  Raises StewardError."""
    found = history.entry(config, which, cluster_name())
    if found.call.type:
        return found
    what = about(_object(found.request))
    return found._replace(call=found.call._replace(type=what.type, instances=what.instances))


def described(entry: Entry) -> str:
    """``allocate inst1.lab, 2026-11-21 01:53:11``."""
    call = entry.call
    return f"{call.type or 'request'} {call.instances or '-'}, {_time(call)}"


def rows(config: History) -> Iterator[tuple[str, ...]]:
    """Each kept request, the oldest first; those of other clusters have no number."""
    numbers = {name: at for at, name in enumerate(history.numbered(config, cluster_name()), 1)}
    for name in history.names(config):
        number = str(numbers.get(name, "-"))
        try:
            call = history.read_call(config, name)
            # A request can have many MB, and its own description is beside it.
            call = call if call.type else kept_request(config, name).call
            word = _answer(history.content(config, name, history.ANSWER), call)
        except (OSError, StewardError):
            # Dropped from the ring meanwhile, or no kept request at all.
            yield number, "-", "-", "-", "unreadable", name
        else:
            yield number, _time(call), call.type or "-", call.instances or "-", word, name


def _time(call: Call) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.started // 10**9))


def _answer(raw: bytes, call: Call) -> str:
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
