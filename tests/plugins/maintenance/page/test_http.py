"""The status over HTTP: what it shows, that it only shows, and that it is never empty."""

from __future__ import annotations

import ast
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from paths import DOCS, ROOT
from prometheus_client.parser import text_string_to_metric_families
from statuses import DONE, INCIDENT, NOW, SECOND, STATUS
from thorough import seeds

from ganeti_steward.allocators.rolling.hypervisors import Hypervisor, Running, hypervisor_in
from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.edges import metrics
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_hypervisors
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer
from ganeti_steward.plugins.model.world import Reported

#: Seconds after which a round is too long ago.
MAX_AGE: Final = 100

PATHS: Final = tuple(StatusApplication(STATUS, lambda: MAX_AGE).paths)
#: Those whose answers have the time in them.
OF_NOW: Final = ("/ui", "/metrics")


@contextmanager
def serving(status: Status = STATUS, now: int = NOW) -> Iterator[StatusServer]:
    application = StatusApplication(status, lambda: MAX_AGE, lambda: now)
    server = StatusServer(application, "127.0.0.1", 0, names=["node1.lab"])
    server.start()
    try:
        yield server
    finally:
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 60


def ask(
    server: StatusServer, path: str, method: str = "GET", at: str = "127.0.0.1"
) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    connection = http.client.HTTPConnection(at, server.port, timeout=300)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "application/json"
        raw = answer.read()
        return answer.status, json.loads(raw) if raw else None
    finally:
        connection.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_web_page_that_leads_its_name_here(path: str) -> None:
    """DNS rebinding: the browser would let the page read the answer."""
    with serving() as server:
        for host, expected in (
            *(("evil.example.net", 421), (f"evil.example.net:{server.port}", 421)),
            *(("localhost", 200), (f"127.0.0.1:{server.port}", 200), ("node1.lab", 200)),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            assert answer.status == expected, host
            assert (b"node1" in text) <= (expected == 200)


def test_every_path_is_on_the_page() -> None:
    page = (DOCS / "reference" / "maintd-status.md").read_text()
    described = re.findall(r"^\| `(/[^`]*)` \|", page, re.MULTILINE)
    assert sorted(described) == sorted(PATHS), (
        "docs/reference/maintd-status.md and plugins/maintenance/page/http.py differ in their paths"
    )


@pytest.mark.parametrize("name", Status._fields)
def test_every_member_of_the_status_is_filled(name: str) -> None:
    """It has a default, so what nothing fills would always show that."""
    file = "plugins/maintenance/daemon/reporting.py"
    calls = [
        one for one in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(one, ast.Call)
    ]
    filled = {word.arg for one in calls for word in one.keywords} | {"started"}
    assert name in filled, f"{file}: StatusReport fills the member {name} of the status nowhere"


def test_a_scrape() -> None:
    with serving() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        raw = answer.read().decode()
        connection.close()
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    families = [one.name for one in text_string_to_metric_families(raw)]
    assert sorted(f"{name}_total" if f"{name}_total" in raw else name for name in families) == (
        metrics.names()
    )


def test_how_old_a_round_may_be_can_change() -> None:
    """The configuration is read again while the server runs."""
    settings, round_ended = [60.0], NOW - 900 * SECOND
    application = StatusApplication(Status(NOW), lambda: settings[0], lambda: NOW)
    application.status = Status(round_ended, round_ended=round_ended)
    server = StatusServer(application, "127.0.0.1", 0)
    server.start()
    try:
        status, found = ask(server, "/healthz")
        assert (status, found["reason"]) == (
            503, "the last round ended 900 s ago, more than 60 s"
        )  # fmt: skip
        settings[0] = 3600
        assert ask(server, "/healthz") == (200, {"ok": True, "reason": ""})
    finally:
        server.stop()


def test_the_paths_of_the_design() -> None:
    with serving() as server:
        assert ask(server, "/") == (200, [1])
        assert ask(server, "/1/jobs") == (200, [6, 7])
        status, (first, second) = ask(server, "/1/status")
    assert status == 200
    assert [second[key] for key in ("uuid", "repair-status", "tag", "held")] == [
        DONE.uuid,
        "failed",
        DONE.tag,
        [],
    ]
    # Objects keep the order of their members: the original is what was reported.
    assert json.dumps(first["original"]) == json.dumps(json.loads(INCIDENT.original))
    assert first == {
        "uuid": INCIDENT.uuid,
        "node": "uuid-1",
        "node-name": "node1.lab",
        "original": {"details": {"disk": "sda"}, "status": "evacuate"},
        "object": INCIDENT.object_id,
        "action": "evacuate",
        "cause": '{"disk": "sda"}',
        "progress": "2 of 4 moved, moving web1",
        "repair-status": "pending",
        "jobs": [5, 6, 7],
        "tag": f"maintd:repairready:{INCIDENT.uuid}",
        "tagged": False,
        "acknowledged": False,
        "open": [
            {
                "id": "s1",
                "step": "move",
                "nodes": ["node1.lab", "node2.lab"],
                "instances": ["web1"],
                "jobs": [7, 6],
                "command": "",
                "at": NOW,
            }
        ],
        "first-seen": NOW - 600 * SECOND,
        "observed-since": NOW - 600 * SECOND,
        "healthy-since": None,
        "changed": NOW - 300 * SECOND,
        "progressed": NOW - 60 * SECOND,
        "note": "the node is being evacuated",
        "unmovable": [{"instance": "web2", "reason": "its disk template is file"}],
        "held": [
            {
                "subject": INCIDENT.uuid,
                "brake": "stuck",
                "sentence": "nothing has ended for 90000 s",
                "since": 0,
                "until": 0,
                "step": f"gnt-steward incident show {INCIDENT.uuid}, gnt-job list: a job waits for "
                "a lock or hangs",
                "values": {"elapsed": 90000},
            }
        ],
    }


def test_the_daemon() -> None:
    with serving() as server:
        status, found = ask(server, "/1/daemon")
    assert status == 200
    assert [one["subject"] for one in found.pop("held")] == [INCIDENT.uuid, "cluster"]
    assert found == {
        "mode": "act",
        "pause": "new switch",
        "cluster": {"name": "cluster1.lab", "instances-down": ["web2"], "disks-checked": 2}
        | {"disks-degraded": ["web1"], "scores": {"default": 1.5}}
        | {"room": [{"template": "drbd", "memory": 2048, "disk": 20480, "vcpus": 2, "fits": 12}]},
        "started": STATUS.started,
        "round": {"number": 9, "ended": NOW - 30 * SECOND, "seconds": 0.5, "fault": ""},
        "rounds": [
            {"number": 9, "ended": NOW - 30 * SECOND, "seconds": 0.5}
            | {"started": 2, "held": 1, "fault": ""}
        ],
        "poll": {"number": 7, "ended": NOW - SECOND, "seconds": 2.5, "refused": {"old": 3}},
        "nodes": [
            {"node": "uuid-1", "node-name": "node1.lab", "observation": "ill"}
            | {"status": "evacuate", "cause": '{"disk": "sda"}', "at": NOW - SECOND}
            | {"reboot-required": None, "booted": None},
            {"node": "uuid-2", "node-name": "node2.lab", "observation": "healthy"}
            | {"status": "Ok", "cause": "", "at": NOW}
            | {"reboot-required": None, "booted": None},
            {"node": "uuid-3", "node-name": "node3.lab", "observation": "silent"}
            | {"since": NOW - 5, "why": "no route"},
            {"node": "uuid-4", "node-name": "node4.lab", "observation": "refused"}
            | {"since": NOW - 6, "why": "901 s old"},
            {"node": "uuid-5", "node-name": "node5.lab", "observation": "unknown"},
        ],
        "candidates": [
            {"node": "uuid-1", "node-name": "node1.lab", "configuration": "same"}
            | {"differs": [], "why": ""},
            {"node": "uuid-2", "node-name": "node2.lab", "configuration": "differs"}
            | {"differs": ["[maintd]", "plugin site"], "why": ""},
            {"node": "uuid-3", "node-name": "node3.lab", "configuration": "not-known"}
            | {"differs": [], "why": "no report"},
        ],
        "routine": [
            {"job": 3, "plugin": "rebalance", "step": "move", "subject": "", "copied-mib": 2048}
            | {"nodes": ["node4.lab"], "instances": ["web3"], "submitted": 7, "ended": 0}
            | {"job-status": "error", "error": ""}
        ],
    }


def test_hypervisors() -> None:
    """Those of nodes that report them, as the command reads them again."""
    found = Hypervisor(
        "7.2.22", {"pc": "pc-i440fx-7.2"}, "CPU", ("avx",), {"web": Running("pc", host_cpu=True)}
    )
    seen = Reported(b'{"status":"Ok"}', "Ok", "", NOW, hypervisor=found)
    poll = STATUS.poll._replace(observations={**STATUS.poll.observations, "uuid-2": seen})
    with serving(STATUS._replace(poll=poll)) as server:
        answer = fetch_hypervisors("127.0.0.1", server.port)
    assert answer.keys() == {"node2.lab"}
    assert hypervisor_in(answer["node2.lab"]) == found


def test_figures_and_history() -> None:
    with serving() as server:
        (group,) = ask(server, "/1/nodes")[1]
        (entry,) = ask(server, "/1/history")[1]
    (node,) = group["nodes"]
    amount = {"used": 1024, "total": 4096, "reserved": 512}
    assert (node["name"], node["notes"]) == ("node1.lab", ["drained"])
    assert node["now"]["memory"] == amount
    assert node["now"]["disk"] == {"used": 0, "total": None, "reserved": 0.0}
    assert group["planned"] == {}
    assert (entry["node_name"], entry["after"]) == ("node1.lab", "pending")


def test_what_is_published_is_shown_at_once() -> None:
    """Also before the first round: there is no moment without the incidents."""
    with serving(Status(NOW, incidents=(DONE,))) as server:
        assert [one["uuid"] for one in ask(server, "/1/status")[1]] == [DONE.uuid]
        assert ask(server, "/1/jobs") == (200, [])
        server.publish(STATUS)
        assert len(ask(server, "/1/status")[1]) == 2
        assert ask(server, "/1/jobs") == (200, [6, 7])


@pytest.mark.parametrize("path", ["/1/status", "/1/jobs"])
def test_incidents_that_were_not_read_yet(path: str) -> None:
    """Nothing is known, which is not the same as nothing is wrong."""
    with serving(Status(NOW)) as server:
        found = ask(server, path)
        assert found == (503, {"error": "the incidents have not been read yet"})
        server.publish(Status(NOW, incidents=()))
        assert ask(server, path) == (200, [])


@pytest.mark.parametrize(
    ("status", "seconds", "reason"),
    [
        (STATUS, 69, ""),
        (STATUS, 71, "the last round ended 101 s ago, more than 100 s"),
        (Status(NOW), 100, ""),
        (Status(NOW), 101, "the daemon started, without any round, 101 s ago, more than 100 s"),
        (
            STATUS._replace(undecided="1 of 3 name n9"),
            0,
            "nothing is done, whether this node is the master is undecided: 1 of 3 name n9",
        ),
        (STATUS._replace(round_fault="no luxid"), 0, "the last round failed: no luxid"),
    ],
)
def test_health(status: Status, seconds: int, reason: str) -> None:
    with serving(status, NOW + seconds * SECOND) as server:
        found = ask(server, "/healthz")
    assert found == ((503 if reason else 200), {"ok": not reason, "reason": reason})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"])
def test_only_get(method: str, path: str) -> None:
    with serving() as server:
        status, found = ask(server, path, method)
    assert status == 405
    assert found == (None if method == "HEAD" else {"error": "wrong method"})


@pytest.mark.parametrize("path", ["/1", "/1/status/", "/1/jobs/7", "/2/status", "/%00"])
def test_no_other_path(path: str) -> None:
    with serving() as server:
        assert ask(server, path) == (404, {"error": "no such path"})


def test_an_address_in_use() -> None:
    with serving() as server, pytest.raises(StewardError, match="cannot listen at"):
        StatusServer(StatusApplication(STATUS, lambda: MAX_AGE), "127.0.0.1", server.port)


@contextmanager
def also_at(address: str, taken: str = "") -> Iterator[StatusServer]:
    """A server at 127.0.0.1 and another address; a program may have taken the port of that one."""
    with socket.socket() as other, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        if taken:
            other.bind((taken, port))
            other.listen()
        free.close()
        application = StatusApplication(STATUS, MAX_AGE, lambda: NOW)
        server = StatusServer(application, "127.0.0.1", port, also=address)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def test_a_second_address() -> None:
    """GET only there as well, and what is published is shown at both."""
    with also_at("127.0.0.2") as server:
        server.publish(STATUS._replace(incidents=()))
        for address in ("127.0.0.1", "127.0.0.2"):
            assert ask(server, "/1/status", at=address) == (200, [])
            assert ask(server, "/1/status", "POST", at=address)[0] == 405
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.2", server.port))


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_a_second_address_that_is_not_there_yet(address: str) -> None:
    """Ganeti may give the cluster's address to the master later."""
    if ":" in address and not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with also_at(address) as server:
        assert ask(server, "/")[0] == 200
        assert server.also == address


@pytest.mark.parametrize(
    ("address", "taken"), [("127.0.0.2", "127.0.0.2"), ("cluster", ""), ("fe80::1%nowhere", "")]
)
def test_a_second_address_that_cannot_be_used(
    address: str, taken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It never keeps the daemon from starting."""
    with also_at(address, taken) as server:
        assert ask(server, "/")[0] == 200
        assert server.also == ""
    (record,) = caplog.records
    assert record.getMessage().startswith("the status is not served at the cluster's address: ")


def malformed(random: Random) -> bytes:
    """A request that is none, or nearly one."""
    good = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % random.choice(PATHS).encode()
    kind = random.randrange(6)
    if kind == 0:
        return random.randbytes(random.randrange(1, 300))
    if kind == 1:
        return good[: random.randrange(len(good))]
    if kind == 2:
        body = random.randbytes(random.randrange(3000))
        length = random.choice([len(body), -1, 10**12, 0])
        return b"POST /1/status HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % length + body
    if kind == 3:
        return b"GET /" + b"a" * random.randrange(10_000) + b" HTTP/1.1\r\n\r\n"
    if kind == 4:
        head = b"Transfer-Encoding: chunked\r\n" * random.randrange(1, 3)
        return b"PUT / HTTP/1.1\r\n" + head + b"\r\n" + random.randbytes(50)
    damaged = bytearray(good)
    for _ in range(random.randrange(1, 5)):
        damaged[random.randrange(len(damaged))] = random.randrange(256)
    return bytes(damaged)


def send(port: int, raw: bytes) -> None:
    """One request, whose answer is read to its end."""
    with socket.create_connection(("127.0.0.1", port), 60) as caller, suppress(OSError):
        caller.sendall(raw)
        caller.shutdown(socket.SHUT_WR)
        while caller.recv(2**16):
            pass


def test_malformed_requests_change_nothing() -> None:
    """``contrib/test --thorough`` sends 10 000."""
    with serving() as server:
        before = {path: ask(server, path) for path in PATHS if path not in OF_NOW}
        for seed in seeds(300, 10_000):
            send(server.port, malformed(Random(seed)))
        assert {path: ask(server, path) for path in PATHS if path not in OF_NOW} == before
