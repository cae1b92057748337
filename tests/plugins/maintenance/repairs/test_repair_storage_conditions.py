"""What holds the repair of failing physical volumes back, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from storage_worlds import (
    DRBD,
    GOOD_BOTH,
    ILL,
    MISSING_ONE,
    SECONDARY,
    A,
    B,
    ailing,
    lvm,
    now,
    plan,
    task,
    waiting,
)
from worlds import instance, node

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.model.storage import (
    DEGRADED,
    FAULTY,
    GOOD,
    UNKNOWN,
    LogicalVolume,
    NodeStorage,
)
from ganeti_steward.plugins.model.task import Failed
from ganeti_steward.plugins.model.world import Refused, Silent, World

# -- before disks are replaced away


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


@pytest.mark.parametrize("volumes", [(A, B), MISSING_ONE], ids=["present", "missing"])
@pytest.mark.parametrize("state", [FAULTY, DEGRADED, UNKNOWN])
def test_a_primary_without_good_disks_stays_and_the_others_leave(
    volumes: tuple[str, ...], state: str
) -> None:
    """The other side is good and connected; Ganeti migrates only what is good on both."""
    lost = instance("app", "n1", "n2")
    sides = GOOD_BOTH | {"app": {"n1": state, "n2": GOOD}}

    def seen(db: str) -> World:
        storage = lvm({"app": A, "db": db}, sides=sides, volumes=volumes, free=8000)
        return now(storage, [lost, SECONDARY])

    assert task(ILL, seen(A)).instances == {"db"}
    sentence = {
        FAULTY: "its disks on n1 are lost, so it cannot be migrated, and there is no room for new "
        "ones on other volumes of the node: fail it over (gnt-instance failover app), which stops "
        "it for a moment",
        DEGRADED: "its disks on n1 are degraded",
        UNKNOWN: "the state of its disks on n1 is not known (gnt-instance activate-disks)",
    }[state]
    assert waiting(ILL, seen(B)) == f"1 instance on /dev/sda of node n1 wait: app: {sentence}"


def test_lost_primaries_wait_for_what_keeps_the_group_from_being_repaired() -> None:
    """A plain instance on another volume, here; they can be failed over at any time."""
    sides = {"web": {"n1": FAULTY, "n2": GOOD}}
    plain = instance("file", "n1", template="plain")
    storage = lvm({"web": A, "file": B}, sides=sides, volumes=MISSING_ONE)
    assert waiting(ILL, now(storage, [DRBD, plain])) == (
        "1 instance on /dev/sda of node n1 wait: web: its disks on n1 are lost, so it cannot be "
        "migrated, and LVM makes no new ones while a physical volume is missing: fail it over "
        "(gnt-instance failover web), which stops it for a moment; volume group xenvg of node n1 "
        "is not repaired: instance file: its disks are on this node only (template plain)"
    )


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
def test_what_cannot_be_replaced_away_fails_last(made: Instance, reason: str) -> None:
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


# -- before the volume group is repaired


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
