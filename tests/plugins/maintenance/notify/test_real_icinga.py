"""The real Icinga: its downtimes are those that the program is given, after each run."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from installed import need
from paths import ROOT
from programs import wait_until

from ganeti_steward.plugins.maintenance.notify.silences import LASTS, Silence, silences_json

pytestmark = pytest.mark.full

#: Three hosts with a service each, none of which is checked; a user as the how-to has it.
OBJECTS: Final = """
const NodeName = "localhost"
const ZoneName = NodeName
object Endpoint NodeName {}
object Zone ZoneName { endpoints = [ NodeName ] }
object IcingaApplication "app" {}
object ApiListener "api" { bind_host = "127.0.0.1"; bind_port = PORT }
object CheckCommand "never" { command = [ "/bin/true" ] }
template Host "silent" { check_command = "never"; enable_active_checks = false }
object Host "node2.lab" { import "silent" }
object Host "web1" { import "silent" }
object Host "node3.lab" { import "silent" }
apply Service "ping" { check_command = "never"; enable_active_checks = false; assign where true }
object ApiUser "all" { password = "all"; permissions = [ "*" ] }
"""
PAGE: Final = ROOT / "docs/how-to/reboot-all-nodes.md"
AUTHOR: Final = "gnt-steward of cluster.lab"
NODE: Final = Silence("u1", "node2.lab", ("node2.lab", "web1.lab", "not-monitored.lab"))


class Icinga:
    """One on loopback, and the settings of the program."""

    def __init__(self, path: Path, port: int) -> None:
        self._url, self._ca = f"https://localhost:{port}", str(path / "data/certs/ca.crt")
        self._settings = path / "steward-icinga.json"
        self.write("...")

    def write(self, password: str) -> None:
        """The settings; the user has ``...`` on the page."""
        content = {"url": self._url, "user": "steward", "password": password, "ca": self._ca}
        self._settings.write_text(json.dumps(content))
        self._settings.chmod(0o600)

    def call(self, path: str, content: Any, **headers: str) -> list[Any]:
        """What a user with all permissions is answered."""
        token = base64.b64encode(b"all:all").decode()
        headers |= {"Accept": "application/json", "Authorization": f"Basic {token}"}
        data = json.dumps(content).encode()
        request = urllib.request.Request(f"{self._url}/v1/{path}", data, headers)
        context = ssl.create_default_context(cafile=self._ca)
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            found: list[Any] = json.load(answer)["results"]
            return found

    def answers(self) -> bool:
        try:
            return len(self.downtimes) == 0
        except OSError:
            return False

    @property
    def downtimes(self) -> dict[str, tuple[str, int]]:
        """Host and service -> author, and end in s since the epoch."""
        attrs = ["host_name", "service_name", "author", "end_time"]
        method = {"X-HTTP-Method-Override": "GET"}
        found = [one["attrs"] for one in self.call("objects/downtimes", {"attrs": attrs}, **method)]
        ends = {f"{one['host_name']} {one['service_name']}": one for one in found}
        assert len(ends) == len(found), found
        return {key: (one["author"], int(one["end_time"])) for key, one in ends.items()}

    def keep(self, *wanted: Silence, seconds: int = LASTS) -> str:
        """What the program prints on standard error when it fails."""
        given = json.loads(silences_json(wanted, AUTHOR)) | {"seconds": seconds}
        done = subprocess.run(
            [ROOT / "contrib/monitoring/icinga-downtimes"],
            input=json.dumps(given).encode(),
            env={"PATH": os.environ["PATH"], "STEWARD_ICINGA": str(self._settings)},
            capture_output=True,
            check=False,
        )
        printed = done.stderr.decode()
        assert done.returncode == int(bool(printed)), printed
        return printed


def of_the_page() -> str:
    """The user that the how-to has an admin make."""
    text = PAGE.read_text()
    begin = text.index('    object ApiUser "steward"')
    return text[begin : text.index("    }\n", begin)] + "}\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Icinga]:
    if os.getuid():
        pytest.skip("the settings must belong to root")
    program = need("icinga2", "icinga2-bin")
    certificates = tmp_path / "data/certs"
    certificates.mkdir(parents=True)
    key, own, ca = (certificates / name for name in ("localhost.key", "localhost.crt", "ca.crt"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(own), "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    ca.write_bytes(own.read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "icinga2.conf"
    file.write_text(OBJECTS.replace("PORT", str(port)) + of_the_page())
    defined = {"RunAsUser": "root", "RunAsGroup": "root"}
    for name in ("DataDir", "LogDir", "CacheDir", "SpoolDir", "InitRunDir"):
        folder = tmp_path / name.removesuffix("Dir").lower()
        folder.mkdir(exist_ok=True)
        defined[name] = str(folder)
    options = [
        word for one in defined.items() for word in ("-D", "Configuration.{}={}".format(*one))
    ]
    with (
        (tmp_path / "log.txt").open("wb") as log,
        subprocess.Popen(
            [program, "daemon", "-c", str(file), *options], stdout=log, stderr=log
        ) as process,
    ):
        found = Icinga(tmp_path, port)
        try:
            wait_until(lambda: process.poll() is not None or found.answers(), "an answer")
            assert process.poll() is None, (tmp_path / "log.txt").read_text()
            yield found
        finally:
            process.terminate()


def test_downtimes_of_a_node_that_is_away(server: Icinga) -> None:
    """Scheduled once, with their services; renewed; removed; that of a person stays."""
    now = int(time.time())
    matching = {"type": "Host", "filter": 'host.name=="node3.lab"', "fixed": True}
    person = {"author": "alice", "comment": "new disk", "start_time": now, "end_time": now + 9999}
    server.call("actions/schedule-downtime", matching | person)
    other = {"node3.lab ": ("alice", now + 9999)}
    assert server.keep() == ""
    assert server.downtimes == other
    assert server.keep(NODE) == ""
    first = server.downtimes
    hosts = {"node2.lab ", "node2.lab ping", "web1 ", "web1 ping"}
    assert {key for key, (author, _) in first.items() if author == AUTHOR} == hosts
    assert server.keep(NODE) == ""
    assert server.downtimes == first
    # Less than half of the time is left.
    assert server.keep(NODE, seconds=3 * LASTS) == ""
    later = server.downtimes
    assert later.keys() == first.keys()
    assert min(end for key, (_, end) in later.items() if key in hosts) > now + 2 * LASTS
    assert server.keep(NODE._replace(names=("node2.lab",)), seconds=3 * LASTS) == ""
    assert server.downtimes.keys() == {*other, "node2.lab ", "node2.lab ping"}
    assert server.keep() == ""
    assert server.downtimes == other


def test_a_wrong_password(server: Icinga) -> None:
    server.write("wrong")
    assert "the user or the password is wrong" in server.keep(NODE)
    assert server.downtimes == {}
