"""Records that others write, beside the daemon as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from running import Site, site, wait_for

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.model.incident import Incident

ILL: Final = {"status": "evacuate", "details": [1]}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, instances=2) as made:
        yield made


def luxi(cluster: Site) -> Luxi:
    return Luxi(str(cluster.path / "luxi.sock"))


def forge(cluster: Site, number: int, **more: Any) -> str:
    """Write a record without the key, as anybody with write access to RAPI can; its uuid."""
    row = cluster.stand_in.ganeti.nodes[number]
    uuid = f"0f0f0f0f-1111-2222-3333-{number:012}"
    one = Incident(uuid, row["uuid"], row["name"], json.dumps(ILL).encode(), "evacuate")
    text = write_record(one._replace(**more))
    reason = Reason(RECORD_SOURCE, text, 1)
    FilterRules(luxi(cluster)).write(FilterRule(uuid, 1000, reasons=(reason,)))
    return uuid


def wait_for_rounds(cluster: Site, number: int) -> dict[str, Any]:
    """What the daemon shows after that many more rounds."""
    first = cluster.get("/1/daemon")["round"]["number"]

    def done() -> dict[str, Any] | None:
        shown: dict[str, Any] = cluster.get("/1/daemon")
        return shown if shown["round"]["number"] >= first + number else None

    found: dict[str, Any] = wait_for(done, cluster.log.read_text)
    return found


def submitted(cluster: Site) -> list[str]:
    """The operations of all jobs that change something."""
    names = [op["OP_ID"] for jobs in cluster.stand_in.submissions for job in jobs for op in job]
    return [one for one in names if "QUERY" not in one]


@pytest.mark.parametrize("first", [True, False])
def test_a_forged_record_drains_no_healthy_node(cluster: Site, first: bool) -> None:
    """Neither one that is there when the daemon starts for the first time, nor a later one."""
    cluster.configure(**{"healthy-delay": 300})
    if first:
        uuids = [forge(cluster, number, status="pending") for number in (1, 2, 3)]
    with cluster.daemon():
        cluster.begun()
        wait_for_rounds(cluster, 1)
        if not first:
            uuids = [forge(cluster, number, status="pending") for number in (1, 2, 3)]
        shown = wait_for_rounds(cluster, 4)
    assert submitted(cluster) == []
    held = {(one["subject"], one["brake"]) for one in shown["held"]}
    assert held == {(uuid, "not-reported" if first else "record") for uuid in uuids}


@pytest.mark.parametrize("first", [True, False])
def test_a_forged_time_ends_no_hold_time(cluster: Site, first: bool) -> None:
    cluster.configure(**{"hold-time": 300})
    cluster.report(cluster.names[1], **ILL)
    if first:
        forge(cluster, 1, observed_since=1)
    with cluster.daemon():
        cluster.begun()
        wait_for_rounds(cluster, 1)
        if not first:
            forge(cluster, 1, observed_since=1)
        shown = wait_for_rounds(cluster, 4)
        (known,) = cluster.get("/1/status")
    assert submitted(cluster) == []
    assert known["repair-status"] == "noted"
    assert (known["uuid"], "hold") in {(one["subject"], one["brake"]) for one in shown["held"]}
