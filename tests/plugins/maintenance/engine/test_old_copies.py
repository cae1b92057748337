"""No plugin starts a copy of a disk that may be old."""

from __future__ import annotations

from typing import Any, Final

import pytest
from maintained import EVACUATE, OK, Maintained
from worlds import SECOND, instance, node, world

from ganeti_steward.allocators.jobs.operations import failover, migrate
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.engine.copies import LastSeen, seen_now, why_old
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.maintenance.engine.effect_brakes import BY_EFFECTS
from ganeti_steward.plugins.maintenance.engine.routine import AFTER_PLAN
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import STOPPED_TAG
from ganeti_steward.plugins.model.task import Task

_CUT: Final = ("disk/0 has lost its connection",)


class Lost(Maintained):
    """inst0 has its primary on node2, which is offline and confirmed to be off."""

    def __init__(self, template: str = "drbd", **config: Any) -> None:
        super().__init__(nodes=4, instances=0)
        self.config = self.config._replace(**config)
        nodes = ("node2", "node3") if template == "drbd" else ("node2",)
        self.instances["inst0"] = instance("inst0", *nodes, template=template)
        self.report("node3", OK)
        self.change("node2", offline=True, tags=(f"{STOPPED_TAG}uuid-node2",))
        self.silence("node2")

    def checked(self, ago: float, *faults: str, answered: float | None = None) -> None:
        """The disks were checked so many s ago; ``answered``: when node2 answered last, s ago."""
        at = DiskHealth(self.now - int(ago * SECOND), faults)
        times = {} if answered is None else {"node2": self.now - int(answered * SECOND)}
        self.recent = self.recent._replace(seen=LastSeen(times, {"inst0": at}))

    def planned(self, whose: str, job: Job) -> str:
        """What holds this job of a plugin back; empty: nothing, it is started."""
        used = frozenset({"node2", "node3", "node4"})
        task = Task("site", used, frozenset({"inst0"}), "start inst0", [job], subject="inst0")
        if whose == "routine":
            self.config = self.config._replace(routine=("plugin",))
            self.routine = lambda name, world: [task]
            decision = self.round()
        else:
            self.planner = lambda incident, world: [PluginPlan("site", task)]
            self.report("node4", EVACUATE)
            decision = self.round()
        # The state of the node itself is reported as well where it is not offline.
        held = {word: sentence for word, sentence in self.held().items() if word != "silent"}
        assert bool(decision.started or decision.routine) != bool(held)
        return held.get("old-copy", "; ".join(held))


#: Every operation that starts the instance on its other node.
JOBS: Final[dict[str, Job]] = {
    "failover": [failover("inst0")],
    "move": [{"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "instance_name": "inst0"}],
    "parameters": [{"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "inst0", "pnode": "node3"}],
    "evacuation": [{"OP_ID": "OP_NODE_EVACUATE", "node_name": "node2", "mode": "all"}],
}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("whose", ["routine", "repair"])
def test_the_last_check_decides_for_every_plugin(whose: str, name: str) -> None:
    def held(ago: float, *faults: str, **more: Any) -> str:
        lost = Lost()
        lost.checked(ago, *faults, **more)
        return lost.planned(whose, JOBS[name])

    assert held(300) == ""
    assert "disk/0 has lost its connection" in held(300, *_CUT)
    assert "checked last at 2023-11-14 21:13:20 UTC, 3601 s ago" in held(3600)
    assert held(3600, answered=1900) == ""
    assert "3300 s before node2 answered last" in held(3600, answered=300)
    assert "no check of the disks of inst0 is known" in Lost().planned(whose, JOBS[name])


def test_the_sentence_says_what_a_person_can_do() -> None:
    lost = Lost()
    lost.checked(300, *_CUT)
    assert lost.planned("routine", JOBS["failover"]) == (
        "node2 is offline, and the other copy may lack what was written last: the disks of inst0 "
        "were checked last at 2023-11-14 22:08:20 UTC: disk/0 has lost its connection; "
        "gnt-instance failover inst0 starts that copy all the same, and failover-unsynced of "
        "[maintd] permits it to the daemon; held: start inst0"
    )


def test_a_node_that_is_silent_and_not_offline() -> None:
    """A live migration cannot start an old copy: it fails."""
    lost = Lost()
    lost.checked(300, *_CUT)
    lost.change("node2", offline=False)
    assert "node2 does not answer" in lost.planned("routine", JOBS["failover"])
    lost = Lost()
    lost.checked(300, *_CUT)
    lost.change("node2", offline=False)
    live = {**migrate("inst0"), "allow_failover": False}
    assert lost.planned("routine", [live]) == ""


def test_an_instance_that_is_stopped_keeps_its_newer_copy() -> None:
    lost = Lost()
    lost.instances["inst0"] = instance("inst0", "node2", "node3", up=False)
    assert "no check" in lost.planned("routine", JOBS["failover"])


def test_what_is_permitted() -> None:
    """By failover-unsynced, but not while the agent of the primary answers."""
    lost = Lost(failover_unsynced=True)
    assert lost.planned("routine", JOBS["failover"]) == ""
    lost = Lost(failover_unsynced=True)
    lost.report("node2", OK)
    assert "no check" in lost.planned("routine", JOBS["failover"])


def test_other_disks_have_one_copy() -> None:
    assert Lost("sharedfile").planned("routine", [failover("inst0", "node3")]) == ""


def test_nodes_and_checks_are_remembered() -> None:
    """A check that is older than the last one says nothing, and what is gone is forgotten."""
    at = 10**18
    first = world([node("n1"), node("n2")], [instance("a", "n1", "n2"), instance("b", "n1", "n2")])
    first = first._replace(now=at, disks={"a": DiskHealth(at), "b": DiskHealth(at, _CUT)})
    before = seen_now(LastSeen(), first, 1800)
    assert before == LastSeen({"n1": at, "n2": at}, first.disks)
    silent = node("n2", memory=0, disk=0, cpus=0, missing=first.cluster.nodes[0]._fields)
    second = world([node("n1"), silent], [instance("a", "n1", "n2")])._replace(
        now=at + SECOND, disks={"a": DiskHealth(at - SECOND, _CUT)}
    )
    after = seen_now(before, second, 1800)
    assert after.disks == {"a": DiskHealth(at)}
    assert after.answered["n1"] == at + SECOND


def test_a_check_of_a_copy_on_another_node_says_nothing() -> None:
    """The secondary was replaced since, and the new copy may not be complete."""
    found = world([node("n1"), node("n2"), node("n3")], [instance("a", "n1", "n3")])

    def why(*nodes: str) -> str:
        seen = LastSeen(disks={"a": DiskHealth(found.now, nodes=nodes)})
        return why_old(found, seen, found.instances["a"])

    assert why("n1", "n2").endswith("when its nodes were n1 and n2")
    assert why("n1", "n3") == why("n3", "n1") == ""


def test_disks_that_are_being_synchronized() -> None:
    found = world([node("n1"), node("n2")], [instance("a", "n1", "n2")])
    seen = LastSeen(disks={"a": DiskHealth(found.now, syncing=True)})
    assert "they were being synchronized" in why_old(found, seen, found.instances["a"])


def test_repairs_and_routine_work_have_the_same_brake() -> None:
    (brake,) = (one for one in BY_EFFECTS if one.__name__ == "_old_copy")
    assert brake in AFTER_PLAN
