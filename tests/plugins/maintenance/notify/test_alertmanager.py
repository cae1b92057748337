"""The real Alertmanager: alerts of a node are suppressed while it is away, after a kill as well."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from installed import need
from programs import wait_until
from worlds import incident, node, world

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.notify.silences import Silences
from ganeti_steward.plugins.model.incident import MAINTENANCE, PENDING, Incident, Maintenance

pytestmark = pytest.mark.full

CONFIG: Final = "route: {receiver: none}\nreceivers: [{name: none}]\n"
AWAY: Final = incident("n2", MAINTENANCE, status=PENDING, maintenance=Maintenance("refuse"))
WORLD: Final = world([node("n1"), node("n2"), node("n3")])


class Alertmanager:
    """One on loopback."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def call(self, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}/api/v2/{path}", data, kind)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def answers(self) -> bool:
        try:
            return self.call("status") is not None
        except OSError:
            return False

    @property
    def states(self) -> dict[str, str]:
        """Instance -> state of its alert."""
        return {one["labels"]["instance"]: one["status"]["state"] for one in self.call("alerts")}

    @property
    def silent(self) -> list[str]:
        """The comments of the silences that last."""
        found = self.call("silences")
        return sorted(one["comment"] for one in found if one["status"]["state"] == "active")

    def keeper(self) -> Silences:
        """That of a daemon that has just started."""
        return Silences(lambda: Maintd(alertmanager=self.address), time.time_ns)

    def round(self, keeper: Silences, *incidents: Incident) -> None:
        keeper(WORLD._replace(incidents={one.uuid: one for one in incidents}), incidents)
        keeper.finish(60)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Alertmanager]:
    program = need("prometheus-alertmanager", "prometheus-alertmanager")
    (tmp_path / "config.yml").write_text(CONFIG)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        program,
        f"--config.file={tmp_path}/config.yml",
        f"--storage.path={tmp_path}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        found = Alertmanager(port)
        try:
            wait_until(lambda: process.poll() is not None or found.answers(), "an answer")
            assert process.poll() is None, (tmp_path / "log").read_text()
            yield found
        finally:
            process.terminate()


def test_the_alerts_of_a_node_that_is_away(server: Alertmanager) -> None:
    alerts = [{"labels": {"alertname": "HostDown", "instance": f"n{n}:9100"}} for n in (2, 3)]
    server.call("alerts", alerts)
    other = {"comment": "of a person", "createdBy": "admin"}
    times = {"startsAt": "2026-01-01T00:00:00Z", "endsAt": "2100-01-01T00:00:00Z"}
    matching = [{"name": "instance", "value": "x", "isRegex": False, "isEqual": True}]
    server.call("silences", {"matchers": matching, **times, **other})
    keeper = server.keeper()
    server.round(keeper)
    assert server.silent == ["of a person"]
    server.round(keeper, AWAY)
    assert server.silent == [f"maintenance of n2: incident {AWAY.uuid}", "of a person"]
    wait_until(
        lambda: server.states == {"n2:9100": "suppressed", "n3:9100": "active"},
        "the states of the alerts",
    )
    # A daemon that starts after a kill finds it, and makes no other one.
    after = server.keeper()
    server.round(after, AWAY)
    assert len(server.silent) == 2
    server.round(after)
    assert server.silent == ["of a person"]
    wait_until(
        lambda: server.states == {"n2:9100": "active", "n3:9100": "active"},
        "the states of the alerts",
    )


def test_the_maintenance_ended_while_no_daemon_ran(server: Alertmanager) -> None:
    server.round(server.keeper(), AWAY)
    assert len(server.silent) == 1
    server.round(server.keeper())
    assert server.silent == []
