"""What may happen while the daemon works, and what may be added to it."""

from __future__ import annotations

import re
from typing import Final

import pytest
from paths import DOCS

from ganeti_steward.plugins.model.incident import (
    CANCELED,
    COMPLETED,
    FAILED,
)

from ..cluster import op, until
from .maintained_lab import MaintainedLab
from .node_files import EVACUATE, FAILOVER, REPAIR

pytestmark = pytest.mark.thorough


def test_a_worse_report_takes_over(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 5)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1"):
        until(lambda: "move" in lab.open_steps())
        lab.report(node, FAILOVER)
        until(lambda: {one.status for one in lab.incidents.values()} == {COMPLETED})
        until(lambda: len(lab.node(node, "tags")[0]) == 2)
    actions = sorted(one.action for one in lab.incidents.values())
    assert actions == ["evacuate", "evacuate-failover"]
    assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]


def test_a_node_that_leaves_the_cluster(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node6.lab"
    lab.report(node, EVACUATE)
    with lab.daemon(mode="observe"):
        lab.incident(node)
        lab.do(op("NODE_REMOVE", node_name=node))
        until(lambda: not lab.incidents)
    lab.ok("gnt-node add --no-ssh-key-check -g rack2 node6.lab")


def test_creations_wait_while_a_node_is_evacuated(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 4)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1\nhold-creations = true"):
        until(lambda: "move" in lab.open_steps())
        create = [
            lab.create(name, on, "diskless")
            for name, on in (("a.lab", node), ("b.lab", "node5.lab"))
        ]
        held, other = (int(lab.luxi.call("SubmitJob", [one])) for one in create)
        until(lambda: lab.job(other) == "success")
        assert lab.job(held) == "queued"
        incident = lab.ended(node, COMPLETED)
        until(lambda: lab.job(held) == "error")
    assert lab.node(node, "offline", "pinst_cnt") == [True, 0]
    assert [row["uuid"] for row in lab.luxi.rows("filter", ("uuid",))] == [incident.uuid]


def curl(action: str, tag: str, node: str, uuid: str) -> str:
    """The line of the page about incidents that does this with a tag."""
    page = (DOCS / "explanation" / "incidents.md").read_text()
    (line,) = re.findall(rf"^    (curl .*-X {action} .*tag=maintd:{tag}:UUID\")$", page, re.M)
    for word, value in {
        "USER:PASSWORD": "lab:labsecret",
        "MASTER": "cluster.lab",
        "NODE": node,
        "UUID": uuid,
    }.items():
        line = line.replace(word, value)
    return str(line)


@pytest.mark.parametrize(
    ("status", "end", "tag"), [(0, COMPLETED, "repairready"), (7, FAILED, "repairfailed")]
)
def test_rapi_is_enough(maintained: MaintainedLab, status: int, end: str, tag: str) -> None:
    """The page's lines, on a node that is not the master."""
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, status)
    lab.report(node, REPAIR)
    with lab.daemon():
        incident = lab.ended(node, end)
        lab.ok(f"-n 5 {curl('DELETE', tag, node, incident.uuid)}")
        if end == COMPLETED:
            until(lambda: lab.incidents[incident.uuid].acknowledged)
        else:
            until(lambda: incident.uuid not in lab.incidents)
            incident = lab.ended(node, end)
        lab.ok(f"-n 5 {curl('PUT', 'cancel', node, incident.uuid)}")
        until(lambda: lab.incidents[incident.uuid].status == CANCELED)
        until(lambda: lab.node(node, "tags") == [[]])


BAD: Final = {
    "raises": "raise ValueError('no such disk')",
    "hangs": "while True: pass",
    "plans_twice": """node = world.nodes[incident.node].name
    both = frozenset({node, "node1.lab"})
    one = Task("drain", both, frozenset(), "drain it", [[set_role(node, "drained")]])
    return [one, one]""",
}
_PLUGIN: Final = """from ganeti_steward.core import hookimpl
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.operations import set_role


@hookimpl
def steward_plan(incident, world):
    if world.nodes[incident.node].name != "node3.lab":
        return None
    {body}
"""


def test_a_repair_of_the_page_about_the_hook(maintained: MaintainedLab) -> None:
    """A node with the tag is drained and keeps its instances; its repair waits for an admin."""
    lab, node = maintained, "node2.lab"
    page = (DOCS / "reference" / "hooks" / "steward_plan.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", page, re.S)
    lab.place(("inst1.lab", "diskless", node))
    lab.do(op("TAGS_SET", kind="node", name=node, tags=["drain-only"]))
    lab.report(node, EVACUATE)
    with lab.plugins(drain_only=source) as load, lab.daemon(load):
        until(lambda: "an admin decides about inst1.lab" in lab.steward("maintd", "status").stdout)
        assert lab.node(node, "drained", "pinst_cnt") == [True, 1]
        lab.remove("inst1.lab")
        incident = lab.ended(node, COMPLETED)
    assert lab.operations(incident) == ["OP_NODE_SET_PARAMS", "OP_TAGS_SET"]
    assert lab.node(node, "drained", "pinst_cnt") == [True, 0]


@pytest.mark.parametrize("kind", BAD)
def test_a_repair_plugin_that_fails(maintained: MaintainedLab, kind: str) -> None:
    """It is named, its incident waits, and the incidents of other nodes are handled."""
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "diskless", node))
    lab.report(node, EVACUATE)
    lab.report("node3.lab", EVACUATE)
    with (
        lab.plugins(**{kind: _PLUGIN.format(body=BAD[kind])}) as load,
        lab.daemon(f"most-nodes = 2\nplan-time-limit = 1\n{load}"),
    ):
        incident = lab.ended(node, COMPLETED)
        until(lambda: f"plugin {kind}" in lab.steward("maintd", "status").stdout)
        print(lab.steward("maintd", "status").stdout)
    assert lab.node(node, "offline", "pinst_cnt") == [True, 0], incident.note
    assert lab.operations(lab.incident("node3.lab")) == []
    assert lab.node("node3.lab", "drained") == [False]
