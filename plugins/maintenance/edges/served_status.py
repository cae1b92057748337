"""What the running daemon serves, as commands read and print it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.maintenance.edges.status import SAME, wait_text
from ganeti_steward.plugins.texts import local_time

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


def fetch_hypervisors(address: str, port: int) -> dict[str, Any]:
    """Name of a node -> what it reports of QEMU and its CPU; raises StewardError."""
    found = _get(address, port, "/1/hypervisors")
    return found if isinstance(found, dict) else {}


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


def waits_of(status: Mapping[str, Any]) -> dict[str, list[str]]:
    """Subject -> what it waits for, a line each; ``status``: see `fetch_status`."""
    found: dict[str, list[str]] = {}
    for one in status["daemon"]["held"]:
        found.setdefault(one["subject"], []).append(wait_text(one))
    return found


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
            yield f"  {node['node-name']}: {_observed_line(node)}"
    if names := [node["node-name"] for node in daemon["nodes"] if node.get("reboot-required")]:
        yield f"reboot required: {', '.join(names)}"
    states = Counter(one["configuration"] for one in daemon["candidates"])
    counts = ", ".join(f"{n} {word}" for word, n in sorted(states.items()))
    yield f"candidates: {counts or '-'}"
    for one in daemon["candidates"]:
        if one["configuration"] != SAME:
            what = ", ".join(one["differs"]) or one["why"]
            yield f"  {one['node-name']}: {one['configuration']}: {what}"
    incidents = status["incidents"]
    yield f"incidents:  {'not read yet' if incidents is None else len(incidents)}"
    for one in incidents or ():
        what = [one["cause"], one["progress"] or one["note"]]
        yield (
            f"  {one['uuid']} {one['node-name']} {one['action']} {one['repair-status']}: "
            + "; ".join(filter(None, what))
        )
    yield f"held back:  {len(daemon['held'])}"
    for one in daemon["held"]:
        yield f"  ({one['brake']}) {one['subject']}: {wait_text(one)}"


def _ended(what: dict[str, Any]) -> str:
    if not what["number"]:
        return "none yet"
    return f"{local_time(what['ended'])}, took {what['seconds']:.1f} s"


def _observed_line(node: dict[str, Any]) -> str:
    if "status" in node:
        what = node.get("cause")
        return f"reports {node['status']}" + (f": {what}" if what else "")
    return f"{node['observation']} since {local_time(node['since'])}: {node['why']}"
