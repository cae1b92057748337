"""Silences for the nodes that are away for maintenance: of Alertmanager, and by a program.

Each round compares what should be silent with what is, so that a daemon that was killed leaves
nothing behind: a silence lasts for half an hour and is renewed.  Alertmanager's API is that of
version 2.  The program gets all that should be silent, each time: it compares in the same way.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.maintenance.admin_program import TIME_LIMIT, fault_of
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.debts import was_shut_down
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    import requests

_SECOND: Final = 10**9
#: Seconds that a silence lasts, and from how many on it is renewed.
LASTS: Final = 1800
_RENEWED: Final = 900
#: Seconds between two looks while nothing has changed.
_LOOKS: Final = 60

#: Who makes a silence, before the name of the cluster.
_AUTHOR: Final = "gnt-steward of "
#: Seconds until the connection stands, and until the answer begins.
_LIMITS: Final = (5.0, 10.0)
#: Bytes of an answer.
_LONGEST: Final = 2**24


class Silence(NamedTuple):
    """What should be silent."""

    uuid: str
    """of the maintenance"""
    node: str
    names: tuple[str, ...]
    """of the node and of what is shut down with it"""


def wanted_silences(world: World, incidents: Iterable[Incident]) -> tuple[Silence, ...]:
    """One for each node whose maintenance has begun.

    Instances that it has shut down are silent, too; those that migrate are not.
    """
    found = []
    for one in incidents:
        node = world.nodes.get(one.node)
        if one.maintenance and one.active and one.state.begun and node:
            down = [each.name for each in world.cluster.instances if was_shut_down(each, node)]
            found.append(Silence(one.uuid, node.name, (node.name, *sorted(down))))
    return tuple(found)


def matchers(silence: Silence, label: str) -> list[dict[str, Any]]:
    """Alertmanager's matchers: a name with or without its domain, and with any port."""
    names = {name for full in silence.names for name in (full, full.partition(".")[0])}
    pattern = f"({'|'.join(re.escape(name) for name in sorted(names))})(:[0-9]+)?"
    return [{"name": label, "value": pattern, "isRegex": True, "isEqual": True}]


class Silences:
    """Keeps the silences of one cluster, in a thread that comes and goes."""

    def __init__(self, settings: Callable[[], Maintd], clock: Callable[[], int]) -> None:
        """``clock``: ns since the epoch."""
        self._settings, self._clock = settings, clock
        self._thread: threading.Thread | None = None
        self._fault = ""
        self._kept: tuple[Silence, ...] | None = None
        """as they were kept last; None: what an earlier daemon has left is not known"""
        self._looked = 0

    def __call__(self, world: World, incidents: Iterable[Incident]) -> None:
        """Keep what should be silent by now; never waits.

        Raises StewardError with what failed last, until it works again.
        """
        settings = self._settings()
        used = settings.alertmanager or settings.silence_command
        if not used or (self._thread and self._thread.is_alive()):
            return
        wanted = wanted_silences(world, incidents)
        fault, now = self._fault, self._clock()
        due = wanted and abs(now - self._looked) >= _LOOKS * _SECOND
        if wanted != self._kept or due:
            self._looked = now
            work = (settings, world.cluster.name, wanted)
            self._thread = threading.Thread(target=self._run, args=work, daemon=True)
            self._thread.start()
        if fault:
            raise StewardError(fault)

    def finish(self, seconds: float) -> None:
        """Wait for what is under way."""
        if self._thread:
            self._thread.join(seconds)

    def _run(self, settings: Maintd, cluster: str, wanted: tuple[Silence, ...]) -> None:
        faults = []
        if settings.alertmanager:
            faults.append(self._alertmanager_fault(settings, cluster, wanted))
        if command := settings.silence_command:
            given = silences_json(wanted, f"{_AUTHOR}{cluster}")
            fault = fault_of(command, TIME_LIMIT, given)
            faults.append(fault and f"silence-command {command} {fault}")
        self._fault = "; ".join(filter(None, faults))
        self._kept = None if self._fault else wanted

    def _alertmanager_fault(
        self, settings: Maintd, cluster: str, wanted: tuple[Silence, ...]
    ) -> str:
        # Only where there is an Alertmanager; its exceptions are kinds of OSError.
        import requests

        address, label = settings.alertmanager.rstrip("/"), settings.alertmanager_label
        try:
            with _Alertmanager(address) as server:
                keep(server, wanted, label, f"{_AUTHOR}{cluster}", self._clock())
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as err:
            what = type(err).__name__ if isinstance(err, requests.RequestException) else str(err)
            return f"Alertmanager at {address}: {what}"
        return ""


def silences_json(wanted: Iterable[Silence], author: str) -> bytes:
    """What the program of ``silence-command`` reads.

    ``author``: who makes the silences, the same for all of one cluster.
    """
    silences = [one._asdict() for one in wanted]
    return canonical({"author": author, "seconds": LASTS, "silences": silences})


class _Alertmanager:
    """Its API; each call raises OSError, ValueError and the like."""

    def __init__(self, address: str) -> None:
        from ganeti_steward.core.http_session import Session

        self._api, self._session = f"{address}/api/v2", Session()

    def __enter__(self) -> _Alertmanager:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def silences(self) -> list[dict[str, Any]]:
        """All of them, those that have ended as well."""
        found = json_of(self._session.get(f"{self._api}/silences", timeout=_LIMITS))
        if not isinstance(found, list):
            raise ValueError("the list of silences has another form")
        return found

    def put(self, content: Mapping[str, Any]) -> None:
        """Make a silence, or change the one whose id is given."""
        json_of(self._session.post(f"{self._api}/silences", json=content, timeout=_LIMITS))

    def end(self, number: str) -> None:
        """End the silence with this id."""
        path = f"{self._api}/silence/{number}"
        with self._session.delete(path, timeout=_LIMITS) as answer:
            _check(answer)


def keep(
    server: _Alertmanager, wanted: Collection[Silence], label: str, author: str, now: int
) -> None:
    """Make, renew and end silences; those of others are left alone.

    ``author``: who makes them, the same for all of one cluster; ``now``: ns since the epoch.
    """
    uuids, there = {one.uuid for one in wanted}, dict[str, Mapping[str, Any]]()
    for one in server.silences():
        if one["createdBy"] != author or one["status"]["state"] == "expired":
            continue
        uuid = str(one["comment"]).rpartition(" ")[2]
        if uuid in uuids and uuid not in there:
            there[uuid] = one
        else:
            server.end(one["id"])
    for silence in wanted:
        before, matching = there.get(silence.uuid), matchers(silence, label)
        if before and before["matchers"] == matching and _left(before, now) > _RENEWED:
            continue
        content = {
            "matchers": matching,
            "startsAt": _text(now),
            "endsAt": _text(now + LASTS * _SECOND),
            "createdBy": author,
            "comment": f"maintenance of {silence.node}: incident {silence.uuid}",
        }
        # With the same begin it stays the same silence.
        same = {"id": before["id"], "startsAt": before["startsAt"]} if before else {}
        server.put({**content, **same})


def _left(one: Mapping[str, Any], now: int) -> float:
    """Seconds until it ends."""
    return datetime.fromisoformat(one["endsAt"]).timestamp() - now / _SECOND


def _text(at: int) -> str:
    return datetime.fromtimestamp(at // _SECOND, UTC).isoformat()


def json_of(answer: requests.Response) -> Any:
    """What an answer has; raises requests' exceptions, ValueError."""
    from ganeti_steward.core.http_session import read_whole

    with answer:
        _check(answer)
        return load_json(read_whole(answer, _LONGEST), longest=_LONGEST)


def _check(answer: requests.Response) -> None:
    if answer.status_code != HTTPStatus.OK:
        raise ValueError(f"HTTP {answer.status_code}")
