"""Jobs in sets, and as commands."""

from __future__ import annotations

from ganeti_steward.allocators.jobs.job_sets import commands, describe, job_sets, script
from ganeti_steward.allocators.jobs.operations import failover, migrate, replace_secondary
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.core.model.opcodes import Job


def instance(name: str, *nodes: str) -> Instance:
    return Instance(name, 1, 1, 0, (), "drbd", 1, (), (), "up", False, nodes)


def cluster(*instances: Instance) -> Cluster:
    return Cluster((), (), instances)


def names(sets: list[list[Job]]) -> list[list[str]]:
    return [[job[0]["instance_name"] for job in jobs] for jobs in sets]


def test_sets_touch_no_node_twice() -> None:
    snapshot = cluster(instance("a", "1", "2"), instance("b", "3", "4"), instance("c", "5", "6"))
    jobs = [[migrate("a")], [replace_secondary("b", "7")], [replace_secondary("c", "4")]]
    # b leaves node 4, where c's new secondary is to be.
    assert names(job_sets(snapshot, jobs)) == [["a", "b"], ["c"]]
    assert names(job_sets(snapshot, [jobs[2], jobs[0], jobs[1]])) == [["c", "a"], ["b"]]
    assert job_sets(snapshot, []) == []


def test_nodes_follow_the_operations() -> None:
    """What a job touches depends on where the jobs before it left the instance."""
    snapshot = cluster(instance("a", "1", "2"), instance("b", "1", "9"), instance("c", "2", "8"))
    leave: Job = [migrate("a"), replace_secondary("a", "3")]
    again: Job = [replace_secondary("a", "4")]
    # First a goes from 1 and 2 to 2 and 3, then to 2 and 4: node 1 is free for b.
    assert names(job_sets(snapshot, [leave, again, [migrate("b")]])) == [["a"], ["a", "b"]]
    assert names(job_sets(snapshot, [leave, again, [migrate("c")]])) == [["a"], ["a"], ["c"]]


def test_instances_without_secondary() -> None:
    snapshot = cluster(instance("a", "1"), instance("b", "2"))
    jobs = [[migrate("a", "3")], [failover("b", "3")]]
    assert names(job_sets(snapshot, jobs)) == [["a"], ["b"]]
    assert names(job_sets(snapshot, [jobs[0], [failover("b", "1")]])) == [["a"], ["b"]]
    assert names(job_sets(snapshot, [jobs[0], [failover("b", "4")]])) == [["a", "b"]]


def test_commands() -> None:
    job = [migrate("i.lab"), replace_secondary("i.lab", "n1"), failover("i.lab", "n2")]
    assert commands(job) == [
        "gnt-instance migrate -f --allow-failover --ignore-hvversions i.lab",
        "gnt-instance replace-disks -n n1 i.lab",
        "gnt-instance failover -f -n n2 i.lab",
    ]
    assert describe(job) == "i.lab: migrate, replace-disks to n1, failover to n2"
    assert describe([{"OP_ID": "OP_OTHER", "instance_name": "x"}]) == "x: OP_OTHER"


def test_names_are_safe_for_a_shell() -> None:
    (line,) = commands([replace_secondary("a; reboot", "n$1")])
    assert line == "gnt-instance replace-disks -n 'n$1' 'a; reboot'"


def test_script() -> None:
    sets = [[[replace_secondary("a", "1")], [replace_secondary("b", "2")]], [[migrate("a")]]]
    assert script(sets).splitlines() == [
        "# job set 1 of 2, 2 jobs",
        "gnt-instance replace-disks -n 1 a",
        "gnt-instance replace-disks -n 2 b",
        "# job set 2 of 2, 1 job",
        "gnt-instance migrate -f --allow-failover --ignore-hvversions a",
    ]
    assert counted(0, "job") == "0 jobs"
