"""The worlds of the tests are what the engine takes them for."""

from __future__ import annotations

from worlds import after, incident, instance, node, uuid_of, world

from ganeti_steward.allocators.moves.evacuation import node_evacuate
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import PRIMARY_ONLY, NodeEvacuate
from ganeti_steward.plugins.model.world import diagnose_object


def test_moves_change_places_and_figures() -> None:
    before = world(
        [node("n1"), node("n2"), node("n3", memory=100)],
        [instance("drbd", "n1", "n2"), instance("ext", "n1", template="ext", memory=512)],
    )
    request = NodeEvacuate(("drbd", "ext"), PRIMARY_ONLY)
    answer = node_evacuate(request, before.cluster, Context())
    assert isinstance(answer, Answer)
    _, failed, jobs = answer.result
    assert failed == []
    then = after(before, jobs)  # type: ignore[arg-type]
    assert then.instances["drbd"].nodes == ("n2", "n1") == then.cluster.instance("drbd").nodes
    assert then.instances["ext"].nodes == ("n2",)
    free = {one.name: (one.free_memory, one.free_disk) for one in then.cluster.nodes}
    assert free["n1"] == (16384, 102400 - 10368)
    assert free["n2"] == (16384 - 1024 - 512, 102400 - 10368)


def test_roles_exclude_each_other() -> None:
    before = world([node("n1", master_candidate=True), node("n2", master=True)])
    drain = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n1", "drained": True}
    drain["auto_promote"] = True
    drained = after(before, [[drain]])
    offline = after(drained, [[{**drain, "drained": None, "offline": True}]])
    assert not drained.nodes[uuid_of("n1")].master_candidate
    assert [drained.cluster.nodes[0].condition, offline.cluster.nodes[0].condition] == [
        "drained",
        "offline",
    ]
    assert not offline.nodes[uuid_of("n1")].drained


def test_incidents_differ_by_their_number() -> None:
    first, second = incident("n1", command="fix"), incident("n1", number=2)
    assert first.uuid != second.uuid
    assert diagnose_object(first.original) == {
        "status": "evacuate",
        "number": 1,
        "command": "fix",
    }
