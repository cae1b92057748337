"""Reserved and licensed hosts on the lab's cluster: real tags, ``gnt-instance add -I steward``."""

from __future__ import annotations

from typing import Any

import pytest

from ..cluster import ADD, DEFAULT_GROUP, RACK2, Lab, tagged
from ..live import STEWARD, Running, Ways

OTHERS = {*DEFAULT_GROUP, *RACK2}


def closed(prefix: str) -> dict[str, Any]:
    """The opcode that keeps everybody else out of the aggregates with a prefix."""
    names = ("default-forbidden-prefix", "required-prefix")
    return tagged("cluster", "", *(f"steward:{name}:{prefix}:" for name in names))


def add(lab: Lab, name: str, tags: str = "", options: str = "-t diskless") -> str:
    """Where a new instance is put by the allocator, and is."""
    tagged = f"--tags {tags}" if tags else ""
    done = lab.add(f"-I steward {options} {tagged}", f"{name}.lab")
    assert done.call.answer["success"] is True
    return done.call.nodes[0]


def refused(lab: Lab, name: str, tags: str, options: str = "-t diskless") -> str:
    """Why a new instance is put nowhere."""
    done = lab.fails(f"{ADD} -I steward {options} --tags {tags} {name}.lab")
    assert done.call.answer["success"] is False
    assert f"{name}.lab" not in lab.instances()
    return done.call.info


def listed(lab: Lab) -> dict[str, set[str]]:
    """Aggregate -> nodes, as the command prints them."""
    text = lab.ok(f"{STEWARD} aggregate list -o name,nodes --no-headers --separator='|'").text
    rows = [line.split("|") for line in text.splitlines()]
    return {name: {*nodes.split(",")} - {"-"} for name, nodes in rows}


def reserved(lab: Lab) -> None:
    """Steps 0 to 2: prefixes, a free pool of three nodes, two of them reserved."""
    free = "reservation:free"
    lab.do(
        closed("reservation"),
        tagged("cluster", "", f"steward:unclaimable:{free}"),
        *(tagged("node", node, f"steward:aggregate:{free}") for node in RACK2),
    )
    done = lab.ok(f"{STEWARD} reserve create r1 node5 node7")
    assert "moved from reservation:free to reservation:r1: node5.lab, node7.lab" in done.text


@pytest.mark.thorough
def test_the_reservation_story(lab: Lab, to: Ways) -> None:
    reserved(lab)
    assert listed(lab) == {
        "reservation:free": {"node6.lab"},
        "reservation:r1": {"node5.lab", "node7.lab"},
    }
    # Step 3: who names it is on its nodes only; both are used.
    mine = [add(lab, f"mine{number}", "reservation:r1") for number in range(3)]
    assert {*mine} == {"node5.lab", "node7.lab"}
    # Step 4: who does not is on none of them, nor in the free pool.
    others = [add(lab, f"other{number}") for number in range(2)]
    assert {*others} <= {*DEFAULT_GROUP}
    # Instances that were on these nodes before stay, and are reported; the new ones are right.
    done = lab.fails(f"{STEWARD} aggregate check")
    assert "instance drbd4.lab would not be placed on node7.lab as secondary today: " in done.text
    assert not any(f"{who}{n}.lab" in done.text for who in ("mine", "other") for n in range(3))
    # A reservation that was not made, and the pool that no instance may request.
    assert "not in aggregate reservation:r9 (no members)" in refused(lab, "lost", "reservation:r9")
    assert "no instance may request aggregate reservation:free" in refused(
        lab, "sly", "reservation:free"
    )
    # An evacuation keeps to the rules: node6 is in the same group, and is not used.
    leaving = [f"mine{number}.lab" for number, node in enumerate(mine) if node == "node7.lab"]
    done = lab.ok("gnt-node evacuate -f -p -I steward node7.lab")
    assert sorted(done.call.request["instances"]) == leaving
    assert [lab.nodes_of(name) for name in leaving] == [["node5.lab"]] * len(leaving)
    # Nor does it leave the reservation when all of that is in one group.
    done = lab.fails("gnt-instance change-group -I steward mine0.lab")
    assert not done.call.answer["success"] or done.call.answer["result"][0] == []
    assert lab.nodes_of("mine0.lab") == ["node5.lab"]
    # It is not released while it is used, and then it is, through RAPI.
    done = lab.fails(f"{STEWARD} reserve release r1 {to.rapi}")
    assert ": mine0.lab, mine1.lab, mine2.lab, drbd2.lab, drbd4.lab; --force " in done.text
    lab.remove(*(f"mine{number}.lab" for number in range(3)))
    lab.ok(f"{STEWARD} reserve release r1 --force {to.rapi}")
    assert listed(lab) == {"reservation:free": {*RACK2}}


def test_one_of_two_at_the_same_time(lab: Lab, to: Ways) -> None:
    lab.do(closed("reservation"))
    lab.ok(f"{STEWARD} aggregate add reservation:free {' '.join(RACK2)}")
    commands = [
        f"{STEWARD} reserve create {name} --count 2 {way}"
        for name, way in (("one", to.luxi), ("two", to.rapi))
    ]
    running = [Running(lab, command) for command in commands]
    ended = [command.end() for command in running]
    found = listed(lab)
    free = found.pop("reservation:free")
    won = [name for name, (status, _) in zip(("one", "two"), ended, strict=True) if not status]
    # Perhaps each took away a node from the other; never did both get nodes, or half of them.
    assert len(won) <= 1, ended
    assert set(found) == {f"reservation:{name}" for name in won}, ended
    assert len(free) == 3 - 2 * len(won)
    for status, text in ended:
        # The second one may come when the nodes are no longer free.
        assert status == 0 or "nothing is changed" in text or "2 wanted, but the free pool" in text


def test_licensed_hosts(lab: Lab) -> None:
    """For nothing else, and for those that belong there by either tag."""
    lab.do(closed("license"))
    licensed = {"node2.lab", "node6.lab"}
    lab.ok(f"{STEWARD} aggregate add license:windows {' '.join(sorted(licensed))}")
    assert {add(lab, f"linux{number}") for number in range(4)} <= OTHERS - licensed
    assert add(lab, "win1", "license:windows") in licensed
    assert add(lab, "win2", "steward:member-of:license:windows") in licensed


def test_the_secondary_in_another_room(lab: Lab) -> None:
    """Ganeti takes the pair; the volumes do not exist here, so the job ends there."""
    lab.ok(f"{STEWARD} aggregate add room1 node1 node2 node5")
    tags = "steward:member-of.primary:room1,steward:member-of.secondary:not:room1"
    done = lab.fails(f"{ADD} -I steward -t drbd --disk 0:size=1G --tags {tags} pair.lab")
    primary, secondary = done.call.nodes
    assert primary in {"node1.lab", "node2.lab", "node5.lab"}
    assert secondary in OTHERS - {"node1.lab", "node2.lab", "node5.lab"}
    assert f"instance pair.lab via iallocator steward: {primary}, {secondary}" in done.text
    assert "there are no real logical volumes here (lvcreate)" in done.text
