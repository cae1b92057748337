"""Records that others write, beside the daemon as a process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confd_servers import KEY
from running import Site, site, wait_for

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import read_world
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.works import requested

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


def statuses(cluster: Site) -> list[str]:
    """Those of the incidents that the daemon knows; none before its first round."""
    found = cluster.get("/1/status")
    return [one["repair-status"] for one in found] if isinstance(found, list) else []


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
    assert held == {(uuid, "record") for uuid in uuids}


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


def requested_maintenance(cluster: Site) -> FilterRule:
    """Root requests the maintenance of a healthy node, and any user of RAPI reads the rule."""
    row, client = cluster.stand_in.ganeti.nodes[1], luxi(cluster)
    cluster_node = next(
        one for one in read_world(client, 0).cluster.nodes if one.name == row["name"]
    )
    request = Maintenance("stop", work="command:reboot-node")
    incident = requested(cluster_node, request, time.time_ns(), UUID, "new memory")
    Store(client, lambda: KEY).write(incident)
    (rule,) = FilterRules(client).read().rules
    return rule


UUID: Final = "0f0f0f0f-1111-2222-3333-000000000009"


@pytest.mark.parametrize("put_back", ["before", "after"])
def test_a_cancelled_maintenance_is_not_begun_again(cluster: Site, put_back: str) -> None:
    """Its rule was kept, and is put back around the start of the daemon of another master."""
    cluster_tags = cluster.stand_in.ganeti.info["tags"]
    cluster_tags.append("maintd:pause-maintenance:not-yet")
    with cluster.daemon():
        cluster.begun()
        kept = requested_maintenance(cluster)
        wait_for(lambda: statuses(cluster) == ["noted"], cluster.log.read_text)
        name = cluster.names[1]
        tags = {"OP_ID": "OP_TAGS_SET", "kind": "node", "name": name}
        luxi(cluster).submit([[tags | {"tags": [f"maintd:cancel:{UUID}"]}]], "not now")
        wait_for(lambda: UUID not in cluster.stand_in.filters, cluster.log.read_text)
    before = len(submitted(cluster))
    for file in (cluster.path / "counters.json", cluster.audit):
        file.unlink(missing_ok=True)
    cluster_tags.clear()
    if put_back == "before":
        FilterRules(luxi(cluster)).write(kept)
    cluster.log.unlink()
    with cluster.daemon():
        cluster.begun()
        wait_for_rounds(cluster, 2)
        if put_back == "after":
            FilterRules(luxi(cluster)).write(kept)
        shown = wait_for_rounds(cluster, 6)
        known = statuses(cluster)
    assert (submitted(cluster)[before:], known) == ([], [])
    (held,) = (one for one in shown["held"] if one["brake"] == "record")
    assert "gnt-steward incident confirm" in held["sentence"]


def test_a_record_that_pauses_all_jobs_is_written_back(cluster: Site) -> None:
    """With the same text, signed by the daemon."""
    with cluster.daemon():
        cluster.begun()
        kept = requested_maintenance(cluster)
        wait_for_rounds(cluster, 1)
        row = cluster.stand_in.filters[UUID]
        before = row["reason_trail"][0][1]
        again = kept._replace(action="PAUSE", predicates=())
        reason = again.reasons[0]._replace(text=before)
        FilterRules(luxi(cluster)).write(again._replace(reasons=(reason,)))
        wait_for(lambda: cluster.stand_in.filters[UUID]["action"] == "CONTINUE", str)
    rules = FilterRules(luxi(cluster)).read().rules
    assert [rule.action for rule in rules if rule.uuid == UUID] == ["CONTINUE"]
