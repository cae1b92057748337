"""Failing physical volumes: what the repair handles, and each step by what LVM and Ganeti show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from storage_worlds import (
    DRBD,
    GOOD_BOTH,
    ILL,
    LOST_HERE,
    MISSING_ONE,
    SECONDARY,
    A,
    B,
    ailing,
    lvm,
    now,
    plan,
    report,
    task,
)
from worlds import incident, instance, with_node

from ganeti_steward.allocators.jobs.operations import migrate, replace_secondary
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import MISSING
from ganeti_steward.core.model.opcodes import Operation
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.repair_storage import RepairStorage
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.operations import (
    remove_tags,
    repair_storage,
    replace_in_place,
    set_allocatable,
    set_tags,
)
from ganeti_steward.plugins.model.storage import (
    DEGRADED,
    FAULTY,
    GOOD,
    UNKNOWN,
    LogicalVolume,
    NodeStorage,
    failing_volumes,
)
from ganeti_steward.plugins.model.task import Done, Task, Wait


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


def test_it_is_closed_first() -> None:
    found = task(ILL, now(lvm({"web": A}, closed=()), [DRBD], closed_for=None))
    assert found.jobs == [
        [set_allocatable("n1", A, False), set_tags("node", "n1", [ILL.closed_tag])]
    ]
    assert (found.step, found.nodes, found.instances) == ("close-volume", {"n1"}, set())
    assert found.reason == "close /dev/sda on node n1: it is reported as failing"


def test_the_closing_is_taken_over_from_a_forgotten_incident() -> None:
    """It failed and was acknowledged while the node still reported it, so this one began."""
    old, other = "maintd:closed:gone", ailing(B, uuid="other")

    def tags(closed: Sequence[str], *incidents: Incident) -> list[Operation]:
        seen = now(lvm(closed=closed), closed_for=None, incidents=incidents)
        for one in seen.nodes.values():
            seen = with_node(seen, one.name, tags=(old, other.closed_tag, "x"))
        (job,) = task(ILL, seen).jobs
        return [one for one in job if "TAGS" in one["OP_ID"]]

    own = set_tags("node", "n1", [ILL.closed_tag])
    assert tags([A], ILL, other) == [own, remove_tags("node", "n1", [old])]
    assert tags([A], ILL) == [own, remove_tags("node", "n1", [old, other.closed_tag])]
    # Something else is closed, too: the tag may be about that.
    assert tags([A, B], ILL, other) == [own]


def test_one_that_is_closed_or_missing_already_is_noted() -> None:
    for storage in (lvm(), lvm(volumes=MISSING_ONE)):
        found = task(ILL, now(storage, closed_for=None))
        assert found.jobs == [[set_tags("node", "n1", [ILL.closed_tag])]]


@pytest.mark.parametrize(
    ("made", "primary", "other"), [(DRBD, True, "n2"), (SECONDARY, False, "n3")]
)
def test_disks_are_replaced_in_place(made: Instance, primary: bool, other: str) -> None:
    name = made.name
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


@pytest.mark.parametrize("there", [GOOD, DEGRADED])
def test_a_lost_disk_of_a_primary_is_replaced_in_place(there: str) -> None:
    """It runs with the other copy meanwhile; without the connection that copy may be old."""
    sides = {"web": {"n1": FAULTY, "n2": there}}
    found = plan(ILL, now(lvm({"web": A}, sides=sides), [DRBD]))
    if there == GOOD:
        assert isinstance(found, Task)
        assert found.jobs == [[replace_in_place("web", primary=True)]]
    else:
        assert isinstance(found, Wait)


def test_doubtful_ones_go_last() -> None:
    """``app`` comes first by its name, and its disks on the node are lost."""
    app = instance("app", "n2", "n1")
    sides = GOOD_BOTH | {"app": {"n1": FAULTY, "n2": GOOD}}
    seen = now(lvm({"app": A, "db": A, "web": A}, sides=sides), [DRBD, SECONDARY, app])
    assert task(ILL, seen).instances == {"db"}
    left = now(lvm({"app": A, "db": B, "web": B}, sides=sides), [DRBD, SECONDARY, app])
    assert task(ILL, left).instances == {"app"}


def test_what_is_on_other_volumes_stays() -> None:
    seen = now(lvm({"web": B, "db": B}), [DRBD, SECONDARY])
    assert plan(ILL, seen) == Done("no disk is left on /dev/sda of node n1")


def test_a_missing_volume_is_taken_out_of_the_group() -> None:
    storage = lvm({"web": B}, sides=GOOD_BOTH, volumes=MISSING_ONE)
    found = task(ILL, now(storage, [DRBD]))
    assert found.jobs == [[repair_storage("n1", "xenvg")]]
    assert (found.nodes, found.instances) == ({"n1"}, {"web"})


LOST_PRIMARY: Final = {"n1": FAULTY, "n2": GOOD}


def test_lost_disks_of_primaries_are_rebuilt_after_the_repair_of_the_group() -> None:
    """LVM makes no volumes before; the instance runs with the copy on the other node."""
    sides = GOOD_BOTH | {"web": LOST_PRIMARY}
    seen = now(lvm({"web": A, "db": A}, sides=sides, volumes=MISSING_ONE), [DRBD, SECONDARY])
    # The others leave first.
    assert task(ILL, seen).instances == {"db"}
    left = now(lvm({"web": A, "db": B}, sides=sides, volumes=MISSING_ONE), [DRBD, SECONDARY])
    found = task(ILL, left)
    assert found.jobs == [[repair_storage("n1", "xenvg")]]
    assert found.reason.endswith(": every instance has a good copy elsewhere")
    # What lay on the missing volume is gone; one of its two volumes was on another one.
    repaired = now(lvm({"web": B}, sides=sides, volumes=[B]), [DRBD])
    assert task(ILL, repaired).jobs == [[replace_in_place("web", primary=True)]]
    rebuilt = now(lvm({"web": B}, sides=GOOD_BOTH, volumes=[B]), [DRBD])
    assert isinstance(plan(ILL, rebuilt), Done)
    # The copy was good when the group was repaired; the connection was lost since then.
    worse = {"web": {"n1": FAULTY, "n2": DEGRADED}}
    assert isinstance(plan(ILL, now(lvm({"web": B}, sides=worse, volumes=[B]), [DRBD])), Wait)


@pytest.mark.parametrize("places", [("n3", "n1"), ("n1", "n3")])
def test_the_group_is_not_repaired_before_all_others_have_left(places: tuple[str, str]) -> None:
    """One that the daemon must not touch has volumes there, of its secondary or primary."""
    sides = {"web": LOST_PRIMARY, "db": {"n1": FAULTY, "n3": GOOD}}
    storage = lvm({"web": A, "db": A}, sides=sides, volumes=MISSING_ONE)
    excluded = instance("db", *places, tags=["maintd:off"])
    found = plan(ILL, now(storage, [DRBD, excluded]))
    assert isinstance(found, Wait)
    assert "web: its disks on n1 are lost" in found.reason


@pytest.mark.parametrize("there", [DEGRADED, UNKNOWN, FAULTY])
def test_it_is_not_repaired_without_a_good_copy(there: str) -> None:
    sides = {"web": {"n1": FAULTY, "n2": there}}
    found = plan(ILL, now(lvm({"web": A}, sides=sides, volumes=MISSING_ONE), [DRBD]))
    assert isinstance(found, Wait)
    assert "is not repaired" not in found.reason


def test_a_lost_disk_that_is_not_the_reported_one_is_left() -> None:
    """All volumes of the instance are there."""
    storage = lvm(sides={"web": LOST_PRIMARY}, volumes=[B])
    volumes = tuple(LogicalVolume(f"xenvg/{kind}", B, "web") for kind in ("data", "meta"))
    assert isinstance(plan(ILL, now(storage._replace(logical=volumes), [DRBD])), Done)


def test_a_report_that_knows_no_name() -> None:
    about = ailing(MISSING)
    assert task(about, now(lvm(volumes=MISSING_ONE), closed_for=None)).step == "repair-storage"
    assert isinstance(plan(about, now(lvm(volumes=[B]), closed_for=None)), Done)


def test_after_the_repair_it_is_done_and_stays_closed() -> None:
    assert isinstance(plan(ILL, now(lvm(volumes=[B]))), Done)
    again = task(ILL, now(lvm(closed=())))
    assert again.jobs[0][0] == set_allocatable("n1", A, False)
