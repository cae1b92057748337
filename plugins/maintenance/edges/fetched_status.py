"""The status of the running daemon, from its HTTP server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.units import local_time

#: Seconds for each answer.
_LIMIT: Final = 10.0

#: Bytes of an answer that are read.
_LONGEST: Final = 2**26


def fetch_status(address: str, port: int) -> dict[str, Any]:
    """What the daemon serves: ``daemon`` and ``incidents``; raises StewardError.

    The incidents are None as long as the daemon has not read them.
    """
    return {
        "daemon": _get(address, port, "/1/daemon"),
        "incidents": _get(address, port, "/1/status"),
    }


def _get(address: str, port: int, path: str) -> Any:
    connection = HTTPConnection(address, port, timeout=_LIMIT)
    place = f"the maintenance daemon at {address} port {port}"
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        raw = answer.read(_LONGEST + 1)
    except (OSError, HTTPException) as err:
        raise StewardError(f"{place} does not answer: {reason_of(err)}") from None
    finally:
        connection.close()
    try:
        if answer.status == 200:
            return load_json(raw, longest=_LONGEST)
        if answer.status == 503:
            return None
    except ValueError:
        pass
    raise StewardError(f"{place}, {path}: the answer is not expected (status {answer.status})")


def status_lines(status: dict[str, Any]) -> list[str]:
    """The status for people; raises StewardError for another program's."""
    try:
        return list(_lines(status))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        fault = f"{type(err).__name__}: {err}"
        raise StewardError(f"this is not the status of a maintenance daemon ({fault})") from None


def _lines(status: dict[str, Any]) -> Iterator[str]:
    daemon = status["daemon"]
    done, poll = daemon["round"], daemon["poll"]
    yield f"mode:       {daemon['mode']}"
    yield f"paused:     {'no' if daemon['pause'] is None else daemon['pause']}"
    yield f"started:    {local_time(daemon['started'])}"
    yield f"last round: {_ended(done)}{done['fault'] and ', failed: ' + done['fault']}"
    yield f"last poll:  {_ended(poll)}"
    seen = Counter(node["observation"] for node in daemon["nodes"])
    yield f"nodes:      {', '.join(f'{n} {word}' for word, n in sorted(seen.items())) or '-'}"
    for node in daemon["nodes"]:
        if node["observation"] not in ("healthy", "unknown"):
            yield f"  {node['node-name']}: {_observed(node)}"
    incidents = status["incidents"]
    yield f"incidents:  {'not read yet' if incidents is None else len(incidents)}"
    for one in incidents or ():
        yield (
            f"  {one['uuid']} {one['node-name']} {one['action']} {one['repair-status']}: "
            + (one["note"])
        )
    yield f"held back:  {len(daemon['held'])}"
    for one in daemon["held"]:
        yield f"  ({one['brake']}) {one['subject']}: {one['sentence']}"


def _ended(what: dict[str, Any]) -> str:
    if not what["number"]:
        return "none yet"
    return f"{local_time(what['ended'])}, took {what['seconds']:.1f} s"


def _observed(node: dict[str, Any]) -> str:
    if "status" in node:
        return f"reports {node['status']}"
    return f"{node['observation']} since {local_time(node['since'])}: {node['why']}"
