"""The exporter: the figures of the other commands, over HTTP, and what a failure leaves of them."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from paths import ROOT
from programs import wait_until
from prometheus_client.parser import text_string_to_metric_families

from ganeti_steward.allocators.capacity.sizes import Usage
from ganeti_steward.allocators.health.counts import Counts
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.service.http_messages import HttpAnswer, HttpRequest
from ganeti_steward.plugins.exporter.cli.exporter import add_arguments
from ganeti_steward.plugins.exporter.figures import CountedSize, Figures, GroupFigures
from ganeti_steward.plugins.exporter.metrics import (
    ClusterReading,
    MetricsApplication,
    Readings,
    rendered,
)

DATA: Final = ROOT / "tests" / "data"
PROGRAM: Final = str(Path(sys.executable).with_name("gnt-steward"))
CLUSTER: Final = str(DATA / "balance" / "drained-primary.data")

GROUP: Final = GroupFigures(
    "rack1", 2.5, 0.5, Counts(1, 2, 3, 4, 5), {"usable": 4, "drained": 1}, 12, 6
)
SIZES: Final = (
    CountedSize("tiered", 1, 2048, 10240, 4, 3),
    CountedSize("tiered", 2, 1024, 5120, 2, 7),
    CountedSize("standard", 1, 128, 1024, 1, 20),
)
FIGURES: Final = Figures((GROUP,), SIZES, Usage(0.5, 0.25, 1.5))


def samples(text: bytes) -> dict[str, float]:
    """Name and values of the labels of each sample -> its value, as the library reads it."""
    families = text_string_to_metric_families(text.decode())
    return {
        " ".join([one.name, *one.labels.values()]): one.value
        for family in families
        for one in family.samples
    }


def steward(site: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    config = site / "steward.toml"
    config.write_text(f'[log]\nfile = "{site}/log"\n')
    return subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        env={**os.environ, "GNT_STEWARD_CONFIG": str(config)},
        timeout=300,
        check=False,
    )


def test_all_figures() -> None:
    found = samples(rendered(ClusterReading(FIGURES, 3 * 10**9, 0.5, 8, 1)))
    assert found == {
        "steward_cluster_score rack1": 2.5,
        "steward_cluster_score_bound rack1": 0.5,
        "steward_cluster_n1_failing_nodes rack1": 1,
        "steward_cluster_tag_conflict_nodes rack1": 2,
        "steward_cluster_unusable_primary_instances rack1": 3,
        "steward_cluster_unusable_secondary_instances rack1": 4,
        "steward_cluster_unevacuable_nodes rack1": 5,
        "steward_cluster_nodes usable rack1": 4,
        "steward_cluster_nodes drained rack1": 1,
        "steward_cluster_instances rack1": 12,
        "steward_cluster_misplaced_instances rack1": 6,
        "steward_cluster_capacity_instances tiered 1": 3,
        "steward_cluster_capacity_instances tiered 2": 7,
        "steward_cluster_capacity_instances standard 1": 20,
        "steward_cluster_capacity_memory_bytes tiered 1": 2**31,
        "steward_cluster_capacity_memory_bytes tiered 2": 2**30,
        "steward_cluster_capacity_memory_bytes standard 1": 2**27,
        "steward_cluster_capacity_disk_bytes tiered 1": 10 * 2**30,
        "steward_cluster_capacity_disk_bytes tiered 2": 5 * 2**30,
        "steward_cluster_capacity_disk_bytes standard 1": 2**30,
        "steward_cluster_capacity_vcpus tiered 1": 4,
        "steward_cluster_capacity_vcpus tiered 2": 2,
        "steward_cluster_capacity_vcpus standard 1": 1,
        "steward_cluster_used_ratio memory": 0.5,
        "steward_cluster_used_ratio disk": 0.25,
        "steward_cluster_used_ratio vcpus": 1.5,
        "steward_exporter_success_timestamp_seconds": 3,
        "steward_exporter_read_seconds": 0.5,
        "steward_exporter_failed": 0,
        "steward_exporter_readings_total": 8,
        "steward_exporter_failures_total": 1,
    }


def test_they_are_those_of_check_and_capacity(tmp_path: Path) -> None:
    """Printed once, as for the textfile collector."""
    done = steward(tmp_path, "exporter", "--once", "--text-data", CLUSTER)
    assert (done.returncode, done.stderr) == (0, b"")
    found = samples(done.stdout)
    checked = json.loads(
        steward(tmp_path, "check", "--no-simulation", "--json", "--text-data", CLUSTER).stdout
    )
    (group,) = checked["groups"]
    assert found["steward_cluster_score g1"] == group["score_before"]
    runs = json.loads(steward(tmp_path, "capacity", "--json", "--text-data", CLUSTER).stdout)[
        "runs"
    ]
    counts = {
        f"steward_cluster_capacity_instances {run['mode']} {number}": size["count"]
        for run in runs
        for number, size in enumerate(run["sizes"], 1)
    }
    assert len(counts) > 2
    assert counts.items() <= found.items()


def test_misplaced_instances(tmp_path: Path) -> None:
    groups, nodes, instances, rest = Path(CLUSTER).read_text().split("\n\n", 3)
    # The first instance requests an aggregate that has no member.
    first, others = instances.split("\n", 1)
    fields = first.split("|")
    fields[9] = "steward:member-of:gpu"
    file = tmp_path / "cluster.data"
    file.write_text("\n\n".join([groups, nodes, "|".join(fields) + "\n" + others, rest]))
    found = samples(steward(tmp_path, "exporter", "--once", "--text-data", str(file)).stdout)
    assert found["steward_cluster_misplaced_instances g1"] == 1


def test_a_cluster_that_cannot_be_read(tmp_path: Path) -> None:
    done = steward(tmp_path, "exporter", "--once", "--text-data", str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1


def test_failures_leave_no_old_figures() -> None:
    results: list[Any] = [FIGURES, StewardError("no luxid"), ValueError("odd"), FIGURES]

    def read() -> Figures:
        found = results.pop(0)
        if isinstance(found, Exception):
            raise found
        return FIGURES

    now = iter([5 * 10**9, 7 * 10**9])
    readings = Readings(read, 1, lambda: next(now))
    made = [readings.once() for _ in range(4)]
    assert [one.figures is not None for one in made] == [True, False, False, True]
    assert [one.fault for one in made] == ["", "no luxid", "ValueError: odd", ""]
    assert [one.ended for one in made] == [5 * 10**9, 5 * 10**9, 5 * 10**9, 7 * 10**9]
    assert [(one.readings, one.failures) for one in made] == [(1, 0), (2, 1), (3, 2), (4, 2)]
    found = samples(rendered(made[1]))
    assert found["steward_exporter_failed"] == 1
    assert not any(name.startswith("steward_cluster_") for name in found)


def answer(application: MetricsApplication, path: str, method: str = "GET") -> HttpAnswer:
    return application(HttpRequest(method, path))


def test_paths() -> None:
    readings = Readings(lambda: FIGURES, 1)
    application = MetricsApplication(readings)
    found = answer(application, "/healthz")
    assert (found.status, found.body) == (
        503,
        b'{"ok": false, "reason": "the cluster was not read yet"}',
    )
    readings.once()
    assert answer(application, "/healthz").status == 200
    assert answer(application, "/metrics").status == 200
    assert answer(application, "/nowhere").status == 404
    assert answer(application, "/metrics", "POST").status == 405


def test_a_scrape_of_the_running_program(tmp_path: Path) -> None:
    config = tmp_path / "steward.toml"
    config.write_text(f'[log]\nfile = "{tmp_path}/log"\n[http]\nnames = ["metrics.example.org"]\n')
    process = subprocess.Popen(
        [PROGRAM, "exporter", "-b", "127.0.0.1", "-p", "0", "--text-data", CLUSTER],
        env={**os.environ, "GNT_STEWARD_CONFIG": str(config)},
    )
    log = tmp_path / "log"
    try:
        wait_until(lambda: log.exists() and "exporter begins" in log.read_text(), "a start")
        (port,) = re.findall(r"exporter begins address=127.0.0.1 port=(\d+)", log.read_text())
        wait_until(lambda: "steward_cluster_score g1" in scraped(int(port)), "figures")
        # A web page that has its own name lead here gets nothing; a proxy's name is configured.
        assert scraped(int(port), "evil.example.net") == {}
        assert scraped(int(port), "metrics.example.org") != {}
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0
    assert "exporter ends" in log.read_text()


def scraped(port: int, host: str = "localhost") -> dict[str, float]:
    """The samples; none where the exporter refuses the name it is called by."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", "/metrics", headers={"Host": host})
        answer = connection.getresponse()
        text = answer.read()
        return samples(text) if answer.status == 200 else {}
    finally:
        connection.close()


@pytest.mark.parametrize("given", ["0", "x", "nan", "86401"])
def test_intervals_that_make_no_sense(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--interval", given])
    assert "a number from 1 to 86400 is expected" in capsys.readouterr().err
