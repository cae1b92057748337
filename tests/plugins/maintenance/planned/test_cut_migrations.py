"""Migrations of a planned maintenance that Ganeti itself cuts in half: cleaned up, or it ends."""

from __future__ import annotations

from maintained import CONFIG
from upkept import Upkept, waits

from ganeti_steward.plugins.model.incident import Incident

_CUT = "Unclean master daemon shutdown"


def cut_in_half(*others: str) -> tuple[Upkept, Incident]:
    """The migrations off node2, of drbd1 and others, end with the master daemon that ran them."""
    cluster = Upkept()
    for name in {"shared"} - {*others}:
        del cluster.instances[name]
    found = cluster.request("node2")
    cluster.round()
    cluster.end(1)
    cluster.round()
    for number in cluster.pending_jobs():
        cluster.end(number, _CUT)
    # It runs on its secondary, which Ganeti does not know.
    one = cluster.instances["drbd1"]
    sent = one.sent.having(running=False, status="ERROR_down")
    cluster.instances["drbd1"] = one._replace(sent=sent)
    return cluster, found


def test_a_migration_that_is_cut_in_half_is_cleaned_up() -> None:
    """Then it goes on; without another node Ganeti cannot look where the instance runs."""
    cluster, found = cut_in_half()
    cluster.run()
    assert cluster.cleaned_up == ["drbd1"]
    assert cluster.running_on("node2") == []
    assert "node2 is ready" in waits(cluster, found)
    cluster, found = cut_in_half("shared")
    cluster.run()
    assert cluster.cleaned_up == ["drbd1"]
    record = cluster.records[found.uuid]
    assert (record.status, record.note.split(": ")[0]) == ("failed", "shared")


def test_a_clean_up_that_fails_ends_it() -> None:
    cluster, found = cut_in_half()
    cluster.round()
    (number,) = cluster.pending_jobs()
    cluster.end(number, "Instance drbd1 is not running")
    cluster.run()
    record = cluster.records[found.uuid]
    assert record.status == "failed"
    assert f"drbd1: job {number} (clean-up) failed: Instance drbd1 is not running" in record.note
    assert cluster.cleaned_up == []


def test_migrations_are_cleaned_up_a_limited_number_of_times() -> None:
    cluster, found = cut_in_half()
    for _ in range(50):
        cluster.round()
        for number in cluster.pending_jobs():
            cluster.end(number, _CUT)
    assert cluster.records[found.uuid].status == "failed"
    tried = [one for one in cluster.queue.values() if one.job[0].get("cleanup")]
    assert 0 < len(tried) <= CONFIG.move_attempts
