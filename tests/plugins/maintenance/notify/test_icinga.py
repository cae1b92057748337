"""The program for Icinga: what it schedules and removes, over HTTPS, at a server like Icinga.

`Icinga` answers as doc/12-icinga2-api.md of github.com/Icinga/icinga2 describes it ("Querying
Objects", "schedule-downtime", "remove-downtime", "Authentication"), and as its
lib/remote/actionshandler.cpp does: 404 and "No objects found." where nothing matches the filter of
an action.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from asserting import some
from paths import ROOT
from programs import notes, program
from worlds import NOW, SECOND, incident, node, world

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.notify.silences import (
    LASTS,
    Silence,
    Silences,
    silences_json,
)
from ganeti_steward.plugins.model.incident import MAINTENANCE, PENDING, Maintenance

PROGRAM: Final = ROOT / "contrib/monitoring/icinga-downtimes"
AUTHOR: Final = "gnt-steward of test"
ONE: Final = Silence("u1", "n2.lab", ("n2.lab", "web.lab", "not-monitored.lab"))
TEXT: Final = "maintenance of n2.lab: incident u1"
LOGIN: Final = "Basic " + base64.b64encode(b"steward:secret").decode()


class Icinga:
    """Hosts, and their downtimes by full name."""

    def __init__(self) -> None:
        self.hosts = ["n1.lab", "n2", "web.lab"]
        self.downtimes: dict[str, dict[str, Any]] = {}
        self.changes: list[str] = []
        self.refuses = ""

    def query(self, kind: str, content: dict[str, Any]) -> tuple[int, Any]:
        names = content["filter_vars"]
        if kind == "hosts":
            assert content["filter"] == "host.name in names"
            found = {one: {"name": one} for one in self.hosts if one in names["names"]}
        else:
            assert content["filter"] == "downtime.author == author"
            author = names["author"]
            found = {key: one for key, one in self.downtimes.items() if one["author"] == author}
        results = [
            {"name": key, "type": "?", "joins": {}, "meta": {}}
            | {"attrs": {attr: one[attr] for attr in content["attrs"]}}
            for key, one in found.items()
        ]
        return 200, {"results": results}

    def add(self, host: str, service: str, content: dict[str, Any]) -> dict[str, Any]:
        name = "!".join(filter(None, (host, service, f"d{len(self.changes)}-{service}")))
        given = {key: content[key] for key in ("author", "comment", "start_time", "end_time")}
        self.downtimes[name] = {"host_name": host, "service_name": service, **given}
        return {"code": 200.0, "legacy_id": 1.0, "name": name, "status": "Successfully scheduled"}

    def schedule(self, content: dict[str, Any]) -> tuple[int, Any]:
        assert (content["type"], content["filter"]) == ("Host", "host.name in names")
        results = []
        for host in self.hosts:
            if host in content["filter_vars"]["names"]:
                self.changes.append(f"schedule {host}")
                results.append(self.add(host, "", content))
                if content.get("all_services"):
                    self.add(host, "ping4", content)
        return (200, {"results": results}) if results else (404, NOTHING)

    def remove(self, content: dict[str, Any]) -> tuple[int, Any]:
        one = self.downtimes.pop(content["downtime"], None)
        if one is None:
            return 404, NOTHING
        self.changes.append(f"remove {one['host_name']}")
        # Those of its services, which all_services has made, are removed with it.
        for key, other in list(self.downtimes.items()):
            same = (one["host_name"], one["end_time"]) == (other["host_name"], other["end_time"])
            if same and other["service_name"]:
                del self.downtimes[key]
        return 200, {"results": [{"code": 200.0, "status": "Successfully removed downtime"}]}

    def answer(self, path: str, override: str, content: dict[str, Any]) -> tuple[int, Any]:
        if path == self.refuses:
            return 403, {"error": 403.0, "status": "Missing permission"}
        if path.startswith("/v1/objects/"):
            assert override == "GET"
            return self.query(path.rpartition("/")[2], content)
        return {
            "/v1/actions/schedule-downtime": self.schedule,
            "/v1/actions/remove-downtime": self.remove,
        }[path](content)

    def silent(self) -> list[str]:
        """Host and comment of the downtimes of hosts."""
        found = [one for one in self.downtimes.values() if not one["service_name"]]
        return sorted(f"{one['host_name']} {one['comment']}" for one in found)


NOTHING: Final = {"error": 404.0, "status": "No objects found."}


class Site:
    """A server on loopback, and the settings of the program."""

    def __init__(self, path: Path, icinga: Icinga, port: int) -> None:
        self.icinga, self.file = icinga, path / "steward-icinga.json"
        self.content = {"url": f"https://localhost:{port}", "user": "steward"}
        self.content |= {"password": "secret", "ca": str(path / "ca.pem")}
        self.write()

    def write(self, mode: int = 0o600, **changed: Any) -> None:
        content = {key: one for key, one in {**self.content, **changed}.items() if one is not None}
        self.file.write_text(json.dumps(content))
        self.file.chmod(mode)

    def keep(self, *wanted: Silence, author: str = AUTHOR) -> str:
        """What the program prints on standard error when it fails."""
        done = subprocess.run(
            [PROGRAM],
            input=silences_json(wanted, author),
            env={"PATH": os.environ["PATH"], "STEWARD_ICINGA": str(self.file)},
            capture_output=True,
            check=False,
        )
        printed = done.stderr.decode()
        assert (done.returncode, "Traceback" in printed) == (int(bool(printed)), False), printed
        return printed


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.getuid():
        pytest.skip("the settings must belong to root")
    key, ca = str(tmp_path / "key.pem"), str(tmp_path / "ca.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", key, "-out", ca, "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    icinga = Icinga()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = 401, {"error": 401.0, "status": "Unauthorized"}
            if self.headers["Authorization"] == LOGIN:
                assert self.headers["Accept"] == "application/json"
                override = self.headers.get("X-HTTP-Method-Override", "")
                status, content = icinga.answer(self.path, override, given)
            raw = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Site(tmp_path, icinga, server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_scheduled_once_and_removed(site: Site) -> None:
    """Whatever Icinga calls the hosts; what it does not know is left out."""
    found = site.icinga
    for _ in range(2):
        assert site.keep(ONE) == ""
        assert found.silent() == [f"n2 {TEXT}", f"web.lab {TEXT}"]
    assert found.changes == ["schedule n2", "schedule web.lab"]
    (one, *_) = found.downtimes.values()
    assert one["end_time"] - one["start_time"] == LASTS
    assert len(found.downtimes) == 4, "with all services"
    assert site.keep(ONE._replace(names=("n2.lab",))) == ""
    assert found.silent() == [f"n2 {TEXT}"]
    for _ in range(2):
        assert site.keep() == ""
        assert found.downtimes == {}
    assert found.changes[2:] == ["remove web.lab", "remove n2"]


def test_renewed_before_it_ends(site: Site) -> None:
    """The new one is there before the old one is removed; a kill in between leaves both."""
    site.keep(ONE._replace(names=("n2.lab",)))
    old = int(time.time()) + LASTS // 2 - 60
    for one in site.icinga.downtimes.values():
        one["end_time"] = old
    (name,) = (key for key, one in site.icinga.downtimes.items() if not one["service_name"])
    kept = dict(site.icinga.downtimes)
    assert site.keep(ONE._replace(names=("n2.lab",))) == ""
    assert site.icinga.changes == ["schedule n2", "schedule n2", "remove n2"]
    assert name not in site.icinga.downtimes
    site.icinga.downtimes |= kept
    assert site.keep(ONE._replace(names=("n2.lab",))) == ""
    assert site.icinga.changes[3:] == ["remove n2"]
    assert site.icinga.silent() == [f"n2 {TEXT}"]


def test_those_of_others_are_left_alone(site: Site) -> None:
    site.keep(ONE, author="gnt-steward of another")
    site.keep(ONE)
    assert len(site.icinga.silent()) == 4
    site.keep()
    assert {one["author"] for one in site.icinga.downtimes.values()} == {"gnt-steward of another"}


def test_nothing_is_monitored(site: Site) -> None:
    site.icinga.hosts = []
    assert site.keep(ONE) == ""
    assert site.icinga.changes == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"mode": 0o640}, "must belong to root and have the mode 0600"),
        ({"password": "wrong"}, "HTTP 401 from https://localhost"),
        ({"password": None}, "must have the texts ca, password, url, user, and nothing else"),
        ({"more": "x"}, "must have the texts ca, password, url, user, and nothing else"),
        ({"url": "http://localhost:1"}, "key 'url': an address with https:// is expected"),
        ({"url": "https://localhost:1"}, "Connection refused"),
        ({"ca": "/etc/ssl/certs/ca-certificates.crt"}, "certificate verify failed"),
    ],
)
def test_faults(site: Site, changed: dict[str, Any], fault: str) -> None:
    """The password goes to no server that is not the right one."""
    site.write(**changed)
    assert fault in site.keep(ONE)
    assert site.icinga.changes == []


def test_no_permission(site: Site) -> None:
    """It is not taken for nothing to do."""
    kinds = ("objects/hosts", "objects/downtimes", "actions/schedule-downtime")
    for path in some(kinds):
        site.icinga.refuses = f"/v1/{path}"
        assert f"/v1/{path}: are the permissions there?" in site.keep(ONE)
    site.icinga.refuses = ""
    site.keep(ONE)
    site.icinga.refuses = "/v1/actions/remove-downtime"
    assert "remove-downtime: are the permissions there?" in site.keep()


def test_the_daemon_runs_the_program(tmp_path: Path) -> None:
    """With all that should be silent, when that changes, and each minute; a fault is reported."""
    path = program(tmp_path, "silence", f"cat >> NOTES; echo >> NOTES; test -e {tmp_path}/good")
    now = [NOW]
    keeper = Silences(lambda: Maintd(silence_command=path), lambda: now[0])
    away = incident("n2", MAINTENANCE, status=PENDING, maintenance=Maintenance("stop"))
    seen = world([node("n1"), node("n2")], [], [away])

    def round_() -> str:
        try:
            keeper(seen, [away])
        except Exception as err:
            return str(err)
        finally:
            keeper.finish(60)
        return ""

    assert round_() == ""
    assert round_() == f"silence-command {path} ended with exit status 1"
    (tmp_path / "good").touch()
    round_()
    assert [round_(), round_()] == ["", ""]
    given = [json.loads(line) for line in notes(path).splitlines()]
    cluster = seen.cluster.name
    wanted = {"uuid": away.uuid, "node": "n2", "names": ["n2"]}
    assert given == [
        {"author": f"gnt-steward of {cluster}", "seconds": LASTS, "silences": [wanted]}
    ] * len(given)
    runs = len(given)
    now[0] += 61 * SECOND
    assert round_() == ""
    assert len(notes(path).splitlines()) == runs + 1
