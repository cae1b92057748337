"""CPU load from Ganeti's own monitoring daemons."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from .cluster import ADD, NOT_VM_CAPABLE, Lab

REPORT = "http://{node}:1815/1/report/default/cpu-avg-load"
SECONDS = 300


@pytest.fixture(autouse=True)
def no_parameters(lab: Lab) -> Iterator[None]:
    yield
    lab.ok("gnt-cluster modify --default-iallocator-params=")


@pytest.fixture
def silent(lab: Lab) -> Iterator[str]:
    """A node whose daemon does not run."""
    node = "node3.lab"
    lab.ok(f"-n {node} /usr/lib/ganeti/daemon-util stop ganeti-mond")
    yield node
    lab.ok(f"-n {node} /usr/lib/ganeti/daemon-util start ganeti-mond")


def _reports(lab: Lab) -> dict[str, dict[str, object]]:
    """What the daemons of all nodes say, once all of them have measured for long enough."""
    nodes = [name for (name,) in lab.rows("node", "name")]
    deadline = time.monotonic() + SECONDS
    while True:
        reports = {
            node: json.loads(lab.ok(f"curl -sf {REPORT.format(node=node)}").text) for node in nodes
        }
        if all("cpu_total" in report["data"] for report in reports.values()):
            return reports
        assert time.monotonic() < deadline, reports
        time.sleep(1)


def test_all_nodes_are_queried(lab: Lab) -> None:
    live = set(_reports(lab)) - {NOT_VM_CAPABLE}
    lab.ok("gnt-cluster modify --default-iallocator-params=mond=yes")

    call = lab.add("-t diskless", "mond1.lab").call

    assert call.arguments == ["--mond=yes"]
    assert "CPU load" not in call.info
    note = f"INFO CPU load of {len(live)} nodes used (cpu-avg-load)"
    assert note in lab.log.read_text()


def test_one_daemon_that_does_not_run(lab: Lab, silent: str) -> None:
    lab.ok("gnt-cluster modify --default-iallocator-params=-mond")

    call = lab.add("-t diskless", "mond2.lab").call

    note = f"CPU load not used: node '{silent}': Connection refused"
    assert call.info.endswith(f" ({note})")
    assert f"WARNING {note}" in lab.log.read_text()


def test_load_of_instances_without_xen(lab: Lab) -> None:
    lab.add("-t diskless", "mond3.lab")
    lab.ok("gnt-cluster modify --default-iallocator-params=-mond,-mond-xen")

    info = lab.add("-t diskless", "mond4.lab").call.info

    assert " (CPU load not used: node '" in info
    assert "': it reports no load of instance '" in info


def test_the_cluster_names_no_file(lab: Lab) -> None:
    """Who may set the cluster's options need not be root, and the allocator reads files as root."""
    lab.ok("gnt-cluster modify --default-iallocator-params=mond-data=/etc/shadow")

    done = lab.fails(f"{ADD} -t diskless mond5.lab")

    assert "option --mond-data: the cluster's options may name no file" in " ".join(
        done.text.split()
    )
    assert "root:" not in done.text
