"""Failing physical volumes: each step by what LVM and Ganeti show, and what holds it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from worlds import (
    NOW,
    InstanceMade,
    NodeMade,
    incident,
    instance,
    node,
    uuid_of,
    world,
)

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.maintenance.incident import COMPLETED, FAILED, PENDING, Incident
from ganeti_steward.core.maintenance.storage import (
    DEGRADED,
    FAULTY,
    GOOD,
    MISSING,
    UNKNOWN,
    LogicalVolume,
    NodeStorage,
    PhysicalVolume,
    failing_volumes,
)
from ganeti_steward.core.maintenance.task import Done, Failed, Plan, Task, Wait
from ganeti_steward.core.maintenance.world import Observation, Refused, Reported, Silent, World
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import (
    migrate,
    remove_tags,
    repair_storage,
    replace_in_place,
    replace_secondary,
    set_allocatable,
    set_tags,
)
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.storage.repair import RepairStorage

A, B = "/dev/sda", "/dev/sdb"
OK: Final = Reported(canonical({"status": "Ok"}), "Ok", "", NOW)


def report(*volumes: str, **more: Any) -> bytes:
    finding = {"source": "smart:X", "status": "live-repair", "details": {"faults": ["failing"]}}
    finding["details"]["physical_volumes"] = list(volumes)  # type: ignore[index]
    return canonical({"status": "live-repair", "details": [finding], **more})


def ailing(*volumes: str, **fields: Any) -> Incident:
    action = fields.pop("action", "live-repair")
    given = {"status": PENDING, "original": report(*volumes or [A]), **fields}
    return incident("n1", action, **given)


ILL = ailing()
ACKNOWLEDGED = ailing(status=COMPLETED, acknowledged=True)


def lvm(
    logical: Mapping[str, str] | None = None,
    *,
    free: float = 50000,
    closed: Iterable[str] = (A,),
    volumes: Iterable[str] = (A, B),
    sides: Mapping[str, Mapping[str, str]] | None = None,
    **more: Any,
) -> NodeStorage:
    """``logical``: instance -> physical volume its disk is on."""
    return NodeStorage(
        "xenvg",
        tuple(PhysicalVolume(name, free, name not in closed) for name in volumes),
        tuple(LogicalVolume(f"xenvg/{of}", on, of) for of, on in (logical or {}).items()),
        sides or {},
        **more,
    )


def now(
    storage: NodeStorage | None,
    instances: Iterable[InstanceMade] = (),
    *,
    closed_for: Incident | None = ILL,
    nodes: Iterable[NodeMade] = (),
    silent: Mapping[str, Observation] | None = None,
    **fields: Any,
) -> World:
    """Nodes n1 to n4; ``closed_for``: whose tag n1 has; all nodes report but ``silent`` ones."""
    tags = [closed_for.closed_tag] if closed_for else []
    made = [node("n1", tags=tags), *(node(f"n{i}") for i in (2, 3, 4)), *nodes]
    seen = {one.facts.name: OK for one in made} | {"n1": Reported(report(A), "live-repair", "", 0)}
    given = {} if storage is None else {"n1": storage}
    return world(made, instances, observations=seen | dict(silent or {}), storage=given, **fields)


def plan(about: Incident, seen: World, **settings: Any) -> Plan:
    plugin = RepairStorage()
    plugin.configure(Maintd(**{"repair_storage": True, **settings}))
    found = plugin.steward_plan(about, seen, Context())
    assert found is not None
    (one,) = found
    return one


def task(about: Incident, seen: World) -> Task:
    found = plan(about, seen)
    assert isinstance(found, Task), found
    return found


def waiting(about: Incident, seen: World) -> str:
    found = plan(about, seen)
    assert isinstance(found, Wait), found
    return found.reason


DRBD = instance("web", "n1", "n2")
SECONDARY = instance("db", "n3", "n1")
GOOD_BOTH = {"web": {"n1": GOOD, "n2": GOOD}, "db": {"n1": GOOD, "n3": GOOD}}
LOST_HERE = {"web": {"n1": FAULTY, "n2": DEGRADED}, "db": {"n1": FAULTY, "n3": DEGRADED}}
MISSING_ONE = (B, MISSING)


# -- what it handles


@pytest.mark.parametrize(
    "given",
    [
        incident("n1", "live-repair"),
        ailing(original=report(A, command="rebuild")),
        ailing(action="evacuate"),
    ],
    ids=["no volume", "a command comes first", "another action"],
)
def test_other_incidents_are_not_handled(given: Incident) -> None:
    plugin = RepairStorage()
    plugin.configure(Maintd(repair_storage=True))
    assert plugin.steward_plan(given, now(lvm()), Context()) is None


def test_it_is_off_by_default() -> None:
    assert RepairStorage().steward_plan(ILL, now(lvm()), Context()) is None


def test_volumes_are_named_in_the_details_of_findings_or_of_a_command() -> None:
    assert failing_volumes(report(B, A)) == (A, B)
    own = {"status": "live-repair", "details": {"physical_volumes": [A, 7]}}
    assert failing_volumes(canonical(own)) == (A,)


@pytest.mark.parametrize(
    "details",
    [
        "sda",
        7,
        None,
        ["sda", 7, None],
        {"physical_volumes": "/dev/sda"},
        {"physical_volumes": 7},
        [{"details": {"physical_volumes": {"/dev/sda": 1}}}],
        [{"details": ["/dev/sda"]}],
    ],
)
def test_details_that_name_no_volume(details: object) -> None:
    """They may be any JSON: nodes report what their commands print."""
    assert failing_volumes(canonical({"status": "live-repair", "details": details})) == ()


# -- the steps


def test_it_is_closed_first() -> None:
    found = task(ILL, now(lvm({"web": A}, closed=()), [DRBD], closed_for=None))
    assert found.jobs == [
        [set_allocatable("n1", A, False), set_tags("node", "n1", [ILL.closed_tag])]
    ]
    assert (found.step, found.nodes, found.instances) == ("close-volume", {"n1"}, set())
    assert found.reason == "close /dev/sda on node n1: it is reported as failing"


def test_one_that_is_closed_or_missing_already_is_noted() -> None:
    for storage in (lvm(), lvm(volumes=MISSING_ONE)):
        found = task(ILL, now(storage, closed_for=None))
        assert found.jobs == [[set_tags("node", "n1", [ILL.closed_tag])]]


@pytest.mark.parametrize(
    ("made", "primary", "other"), [(DRBD, True, "n2"), (SECONDARY, False, "n3")]
)
def test_disks_are_replaced_in_place(made: InstanceMade, primary: bool, other: str) -> None:
    name = made.facts.name
    found = task(ILL, now(lvm({name: A}, sides=GOOD_BOTH), [made]))
    assert found.jobs == [[replace_in_place(name, primary=primary)]]
    assert (found.nodes, found.instances) == ({"n1", other}, {name})


def test_instance_by_instance() -> None:
    seen = now(lvm({"web": A, "db": A}, sides=GOOD_BOTH), [DRBD, SECONDARY])
    assert task(ILL, seen).instances == {"db"}
    later = now(lvm({"web": A, "db": B}, sides=GOOD_BOTH), [DRBD, SECONDARY])
    assert task(ILL, later).instances == {"web"}


def test_without_room_they_go_to_another_node() -> None:
    found = task(ILL, now(lvm({"web": A}, sides=GOOD_BOTH, free=100), [DRBD]))
    (target,) = found.nodes - {"n1", "n2"}
    assert found.jobs == [[migrate("web"), replace_secondary("web", target)]]


@pytest.mark.parametrize(
    "storage",
    [lvm({"db": A}, sides=LOST_HERE), lvm({"db": A}, sides=GOOD_BOTH, volumes=MISSING_ONE)],
    ids=["the disk is lost", "the volume is missing"],
)
def test_disks_that_cannot_be_replaced_in_place(storage: NodeStorage) -> None:
    found = task(ILL, now(storage, [SECONDARY]))
    (target,) = found.nodes - {"n1", "n3"}
    assert found.jobs == [[replace_secondary("db", target)]]


def test_what_is_on_other_volumes_stays() -> None:
    seen = now(lvm({"web": B, "db": B}), [DRBD, SECONDARY])
    assert plan(ILL, seen) == Done("no disk is left on /dev/sda of node n1")


def test_a_missing_volume_is_taken_out_of_the_group() -> None:
    storage = lvm({"web": B}, sides=GOOD_BOTH, volumes=MISSING_ONE)
    found = task(ILL, now(storage, [DRBD]))
    assert found.jobs == [[repair_storage("n1", "xenvg")]]
    assert (found.nodes, found.instances) == ({"n1"}, {"web"})


def test_a_report_that_knows_no_name() -> None:
    about = ailing(MISSING)
    assert task(about, now(lvm(volumes=MISSING_ONE), closed_for=None)).step == "repair-storage"
    assert isinstance(plan(about, now(lvm(volumes=[B]), closed_for=None)), Done)


def test_after_the_repair_it_is_done_and_stays_closed() -> None:
    assert isinstance(plan(ILL, now(lvm(volumes=[B]))), Done)
    again = task(ILL, now(lvm(closed=())))
    assert again.jobs[0][0] == set_allocatable("n1", A, False)


# -- conditions before disks are replaced away


def test_storage_that_is_not_known() -> None:
    assert waiting(ILL, now(None)) == (
        "the storage of node n1 is not known: it was not queried yet"
    )
    assert "job 7 failed" in waiting(ILL, now(NodeStorage(fault="job 7 failed")))


def test_a_name_that_is_none_of_the_node() -> None:
    assert waiting(ailing("/dev/sdz"), now(lvm(), closed_for=None)) == (
        "nothing is closed: /dev/sdz is none of the physical volumes of node n1 "
        "(/dev/sda, /dev/sdb)"
    )


@pytest.mark.parametrize(
    ("sides", "sentence"),
    [
        ({"n1": GOOD, "n2": DEGRADED}, "web: its disks on n2 are degraded"),
        ({"n1": GOOD, "n2": FAULTY}, "web: its disks on n2 are faulty"),
        ({"n1": FAULTY, "n2": FAULTY}, "web: its disks on n2 are faulty"),
        (
            {"n1": FAULTY, "n2": DEGRADED},
            "web: its disks on n1 are lost, so it cannot be migrated: if those on n2 are complete, "
            "fail it over (gnt-instance failover --ignore-consistency)",
        ),
        (
            {"n1": UNKNOWN, "n2": UNKNOWN},
            "web: the state of its disks on n2 is not known (gnt-instance activate-disks)",
        ),
        ({}, "web: the state of its disks on n2 is not known (gnt-instance activate-disks)"),
    ],
)
def test_the_copy_elsewhere_is_not_good(sides: Mapping[str, str], sentence: str) -> None:
    seen = now(lvm({"web": A}, sides={"web": sides}), [DRBD])
    assert waiting(ILL, seen) == f"1 instance on /dev/sda of node n1 wait: {sentence}"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"reserved_instances": frozenset({"web"})}, "another task uses it"),
        ({"reserved_nodes": frozenset({"n2"})}, "another task uses its node n2"),
        ({"avoided_nodes": {"n2": "reports evacuate"}}, "its node n2 reports evacuate"),
    ],
)
def test_the_other_node_is_not_free(fields: dict[str, Any], sentence: str) -> None:
    seen = now(lvm({"web": A}, sides=GOOD_BOTH), [DRBD], **fields)
    assert waiting(ILL, seen).endswith(f"web: {sentence}")


def test_the_other_node_is_offline() -> None:
    made = instance("web", "n1", "n5")
    storage = lvm({"web": A}, sides={"web": {"n1": GOOD, "n5": GOOD}})
    seen = now(storage, [made], nodes=[node("n5", offline=True)])
    assert waiting(ILL, seen).endswith("web: its node n5 is offline")


def test_one_that_waits_does_not_stop_the_others() -> None:
    sides = GOOD_BOTH | {"db": {"n1": GOOD, "n3": DEGRADED}}
    seen = now(lvm({"web": A, "db": A}, sides=sides), [DRBD, SECONDARY])
    assert task(ILL, seen).instances == {"web"}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            instance("web", "n1", template="plain"),
            "its disks are on this node only (template plain)",
        ),
        (instance("web", "n1", "n2", tags=["maintd:off"]), "it has the tag maintd:off"),
    ],
)
def test_what_cannot_be_replaced_away_fails_last(made: InstanceMade, reason: str) -> None:
    storage = lvm({"web": A, "db": A}, sides=GOOD_BOTH)
    assert task(ILL, now(storage, [made, SECONDARY])).instances == {"db"}
    found = plan(ILL, now(lvm({"web": A}, sides=GOOD_BOTH), [made]))
    assert isinstance(found, Failed)
    assert found.unmovable == (("web", reason),)


def test_volumes_of_no_instance_are_not_touched() -> None:
    storage = lvm(volumes=MISSING_ONE)._replace(logical=(LogicalVolume("xenvg/old", A, ""),))
    assert waiting(ILL, now(storage)) == (
        "logical volumes on /dev/sda of node n1 belong to no known instance: xenvg/old"
    )


# -- conditions before the volume group is repaired


def repair_held(**changed: Any) -> str:
    """Everything is fine but what is given."""
    given: dict[str, Any] = {"sides": GOOD_BOTH, "instances": [DRBD, SECONDARY], **changed}
    storage = lvm({"web": B}, sides=given.pop("sides"), volumes=MISSING_ONE)
    return waiting(ILL, now(storage, given.pop("instances"), **given))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"silent": {"n1": Silent(0, "no answer")}}, "node n1 gives no valid report"),
        ({"silent": {"n2": Silent(0, "no answer")}}, "node n2 gives no valid report"),
        ({"silent": {"n3": Refused(0, "bad signature")}}, "node n3 gives no valid report"),
        ({"avoided_nodes": {"n2": "reports evacuate"}}, "node n2 reports evacuate"),
        ({"reserved_nodes": frozenset({"n3"})}, "node n3 is used by another task"),
        ({"reserved_instances": frozenset({"db"})}, "another task uses instance db"),
        (
            {"sides": GOOD_BOTH | {"db": {"n1": GOOD, "n3": FAULTY}}},
            "instance db: its disks on n3 are faulty",
        ),
        (
            {"sides": {"web": GOOD_BOTH["web"]}},
            "instance db: the state of its disks on n3 is not known (gnt-instance activate-disks)",
        ),
        (
            {"instances": [instance("web", "n1", template="plain")]},
            "instance web: its disks are on this node only (template plain)",
        ),
    ],
)
def test_the_group_is_not_repaired(changed: dict[str, Any], sentence: str) -> None:
    assert repair_held(**changed) == (f"volume group xenvg of node n1 is not repaired: {sentence}")


def test_the_other_node_is_offline_when_the_group_is_to_be_repaired() -> None:
    made = instance("web", "n1", "n5")
    sides = {"web": {"n1": GOOD, "n5": GOOD}}
    held = repair_held(sides=sides, instances=[made], nodes=[node("n5", offline=True)])
    assert held.endswith("node n5 is offline")


def test_all_that_is_wrong_is_named_at_once() -> None:
    held = repair_held(
        silent={"n2": Silent(0, "no answer")}, sides=GOOD_BOTH | {"db": {"n3": FAULTY}}
    )
    assert held.endswith("node n2 gives no valid report; instance db: its disks on n3 are faulty")


def test_instances_without_volumes_do_not_matter() -> None:
    storage = lvm(volumes=MISSING_ONE)
    assert task(ILL, now(storage, [instance("ext", "n1", template="ext")])).step == "repair-storage"


# -- after the operator's word


def opened(storage: NodeStorage, **more: Any) -> World:
    fine = {"n1": OK, **more.pop("silent", {})}
    return now(storage, closed_for=ACKNOWLEDGED, silent=fine, **more)


def test_it_is_opened() -> None:
    found = task(ACKNOWLEDGED, opened(lvm()))
    untag = remove_tags("node", "n1", [ACKNOWLEDGED.closed_tag])
    assert found.jobs == [[set_allocatable("n1", A, True), untag]]
    assert found.step == "open-volume"
    assert task(ACKNOWLEDGED, opened(lvm(closed=()))).jobs == [[untag]]


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (opened(lvm(), silent={"n1": Silent(0, "no")}), "node n1 gives no valid report"),
        (
            opened(lvm(), silent={"n1": Reported(report(A), "live-repair", "", 0)}),
            "node n1 still reports /dev/sda",
        ),
        (
            opened(lvm(volumes=(A, MISSING))),
            "a physical volume of the node is missing, LVM changes nothing then",
        ),
        (
            opened(lvm(volumes=[B])),
            "the node has no physical volume /dev/sda; add it to the volume group, or remove the "
            f"tag {ACKNOWLEDGED.closed_tag}",
        ),
        (
            opened(lvm(), incidents=[ailing(A, B, number=2, status=FAILED)]),
            f"incident {uuid_of('n1 live-repair 2')} (failed) names it, too",
        ),
    ],
    ids=["silent", "still reported", "missing", "not there", "another incident"],
)
def test_it_stays_closed(seen: World, sentence: str) -> None:
    assert waiting(ACKNOWLEDGED, seen) == f"/dev/sda of node n1 stays closed: {sentence}"
