"""The collector of Ganeti's own health on nodes of a real cluster: each finding, and its end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from asserting import some

from .cluster import MASTER, Lab, until
from .live import STEWARD

#: Not a master candidate.
NODE: Final = "node2.lab"
UTIL: Final = "/usr/lib/ganeti/daemon-util"
MOMENT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} UTC"

ONLY: Final = """[diagnose]
collectors = ["ganeti"]
commands = []
[collector.ganeti]
every-node = ["noded", "mond"]
"""


def data(lab: Lab, node: str = MASTER) -> Path:
    return lab.directory / "nodes" / node / "var-lib-ganeti"


def run_directory(lab: Lab, node: str = MASTER) -> Path:
    return lab.directory / "nodes" / node / "run/ganeti"


def faults(lab: Lab, node: str = MASTER) -> dict[str, list[str]]:
    """What the node reports: source -> its faults."""
    object_now = json.loads(lab.ok(f"-n {node} {STEWARD} diagnose --no-state").text)
    found: dict[str, list[str]] = {}
    for one in object_now.get("details", ()):
        found.setdefault(one["source"], []).extend(one["details"]["faults"])
    return found


def results(lab: Lab, node: str = MASTER) -> dict[str, str]:
    """Source -> status, also of what is Ok or unknown."""
    text = lab.ok(f"-n {node} {STEWARD} diagnose --no-state --format table").text
    return {line.split()[0]: line.split()[1] for line in text.splitlines()[1:]}


@pytest.fixture(scope="module", autouse=True)
def _configured(lab: Lab) -> Iterator[None]:
    lab.configure(ONLY)
    file = lab.directory / "nodes" / NODE / "etc-ganeti/steward.toml"
    file.write_text(ONLY)
    yield
    file.unlink()


def test_a_healthy_cluster(lab: Lab) -> None:
    everywhere = {"mond", "noded"}
    only_master = {
        "client.pem",
        "rapi.pem",
        "server.pem",
        "confd",
        "luxid",
        "nodes",
        "queue",
        "rapi",
        "ssconf",
        "watcher",
        "wconfd",
    }
    found = results(lab)
    assert {source for source in found if "spice" not in source} == {
        f"ganeti:{part}" for part in everywhere | only_master
    }
    assert set(found.values()) == {"Ok"}
    found = results(lab, NODE)
    assert {source for source in found if "spice" not in source} == {
        f"ganeti:{part}" for part in everywhere
    }
    assert set(found.values()) == {"Ok"}


def test_a_daemon_that_was_stopped(lab: Lab) -> None:
    lab.ok(f"{UTIL} stop ganeti-rapi")
    try:
        assert faults(lab) == {"ganeti:rapi": ["ganeti-rapi does not run"]}
    finally:
        lab.ok(f"{UTIL} start ganeti-rapi")
    assert faults(lab) == {}


def test_a_daemon_that_was_killed(lab: Lab) -> None:
    """Its pid file is left."""
    file = run_directory(lab, NODE) / "ganeti-mond.pid"
    lab.ok(f"-n {NODE} kill -9 {file.read_text().strip()}")
    try:
        assert file.exists()
        assert faults(lab, NODE) == {"ganeti:mond": ["ganeti-mond does not run"]}
    finally:
        lab.ok(f"-n {NODE} {UTIL} start ganeti-mond")
    assert faults(lab, NODE) == {}


def test_a_certificate(lab: Lab) -> None:
    lab.configure(f"{ONLY}certificate-days = 36500\n")
    try:
        found = faults(lab)
    finally:
        lab.configure(ONLY)
    assert {"ganeti:server.pem", "ganeti:client.pem", "ganeti:rapi.pem"} <= found.keys()
    for source, (fault,) in some(found.items()):
        file = data(lab) / source.removeprefix("ganeti:")
        command = ["openssl", "x509", "-noout", "-dates", "-in", file]
        (year,) = re.findall(
            r"notAfter=.* ([0-9]{4}) GMT", subprocess.check_output(command, text=True)
        )
        assert re.fullmatch(f"the certificate ends on {MOMENT}", fault)
        assert f" {year}-" in fault


def test_a_paused_watcher(lab: Lab) -> None:
    lab.ok("gnt-cluster watcher pause 1h")
    try:
        found = faults(lab)
        until = int((data(lab) / "watcher.pause").read_text())
    finally:
        lab.ok("gnt-cluster watcher continue")
    text = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until))
    assert found == {"ganeti:watcher": [f"the watcher is paused until {text}"]}
    assert faults(lab) == {}


def test_a_watcher_that_does_not_run(lab: Lab) -> None:
    """No cron runs it here; the daemons seem to have been started hours ago."""
    file = run_directory(lab) / "ganeti-luxid.pid"
    before = time.time() - 2 * 3600
    os.utime(file, (before, before))
    text = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(before))
    groups = [name for (name,) in lab.rows("group", "name")]
    expected = [
        f"the watcher has not completed a run for group {name} since {text}" for name in groups
    ]
    assert faults(lab) == {"ganeti:watcher": sorted(expected)}
    lab.ok("ganeti-watcher --wait-children --no-verify-disks")
    assert faults(lab) == {}


def test_a_drained_queue(lab: Lab) -> None:
    lab.ok("gnt-cluster queue drain")
    try:
        found = faults(lab)
    finally:
        lab.ok("gnt-cluster queue undrain")
    assert found.keys() == {"ganeti:queue"}
    (fault,) = found["ganeti:queue"]
    assert re.fullmatch(f"the job queue has been drained since {MOMENT}", fault)
    assert faults(lab) == {}


def test_a_node_that_is_drained_for_long(lab: Lab) -> None:
    lab.ok(f"gnt-node modify --drained yes {NODE}")
    try:
        assert faults(lab) == {}
        lab.configure(f"{ONLY}drained-days = 0.00001\n")
        time.sleep(2)
        text = f"{NODE} has been drained for 1e-05 days, and nothing was changed"
        assert faults(lab) == {"ganeti:nodes": [text]}
    finally:
        lab.ok(f"gnt-node modify --drained no {NODE}")
        lab.configure(ONLY)
    assert faults(lab) == {}


def test_a_file_of_ganeti_that_is_old(lab: Lab) -> None:
    """wconfd writes it again with the first change after its start."""
    file = data(lab) / "ssconf_node_list"
    file.write_text(file.read_text().replace(f"{NODE}\n", ""))
    assert faults(lab) == {"ganeti:ssconf": ["ssconf_node_list differs from the configuration"]}
    lab.ok(f"{UTIL} stop ganeti-wconfd")
    lab.ok(f"{UTIL} start ganeti-wconfd")
    lab.ok("gnt-cluster redist-conf")
    until(lambda: faults(lab) == {}, 60)


#: Runs a command where /dev holds next to nothing.
WITHOUT_DEVICES: Final = """\
mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 &&
exec "$@"
"""


def test_no_kvm(lab: Lab) -> None:
    script = lab.directory / "without-devices.sh"
    script.write_text(WITHOUT_DEVICES)
    without = f"unshare --mount sh {script} {STEWARD} diagnose --no-state"
    assert json.loads(lab.ok(without).text) == {"status": "Ok"}
    options = "-H kvm:kvm_path=/bin/true,kernel_path=,initrd_path="
    lab.ok(f"gnt-cluster modify --enabled-hypervisors=fake,kvm {options}")
    try:
        (found,) = json.loads(lab.ok(without).text)["details"]
    finally:
        lab.ok("gnt-cluster modify --enabled-hypervisors=fake")
    assert found["source"] == "ganeti:kvm"
    assert found["details"] == {"faults": ["there is no /dev/kvm"]}
    assert json.loads(lab.ok(without).text) == {"status": "Ok"}
