"""When the daemon writes how busy the nodes are."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds import NOW, SECOND, node, world

from ganeti_steward.allocators.loads.agent_loads import NodeLoad, read_loads
from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.edges.loads import LoadKeeper
from ganeti_steward.plugins.model.world import Reported, Silent, World

NODES = (node("node1"), node("node2"), node("node3"))


def seen(**ages: float) -> World:
    """Nodes with a load that is so many seconds old; the others are silent."""
    found = world(NODES, [])
    loads = {name: NodeLoad(NOW - round(age * SECOND), 900, 8, 0.5) for name, age in ages.items()}
    observations = {
        one.uuid: Reported(b"{}", "Ok", "", NOW, load=loads[one.name])
        if one.name in loads
        else Silent(NOW, "no answer")
        for one in found.cluster.nodes
    }
    return found._replace(observations=observations)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "maintd" / "loads.json"


def test_nothing_is_written_while_nothing_is_known(path: Path) -> None:
    LoadKeeper(lambda: 900, path=str(path))(seen())
    assert not path.exists()


def test_it_is_written_again_before_it_is_old(path: Path) -> None:
    keeper = LoadKeeper(lambda: 900, path=str(path))

    def kept(of: World) -> dict[str, float]:
        keeper(of)
        found = read_loads(str(path))
        assert found is not None
        return {name: (NOW - load.at) / SECOND for name, load in found.nodes.items()}

    assert kept(seen(node1=400, node2=300)) == {"node1": 400, "node2": 300}
    assert kept(seen(node1=100, node2=100)) == {"node1": 400, "node2": 300}
    assert kept(seen(node1=99, node2=300)) == {"node1": 99, "node2": 300}
    # One that is silent is unknown, and so is what it reported.
    assert kept(seen(node2=300)) == {"node2": 300}
    assert kept(seen(node2=300, node3=1)) == {"node2": 300, "node3": 1}


def test_another_age_limit_is_written(path: Path) -> None:
    limits = iter([900.0, 900.0, 60.0])
    keeper = LoadKeeper(lambda: next(limits), path=str(path))
    for _ in range(3):
        keeper(seen(node1=1))
    found = read_loads(str(path))
    assert found is not None
    assert found.max_age == 60


def test_what_could_not_be_written_is_tried_again(path: Path) -> None:
    keeper = LoadKeeper(lambda: 900, path=str(path))
    path.parent.write_text("")
    with pytest.raises(StewardError):
        keeper(seen(node1=1))
    path.parent.unlink()
    keeper(seen(node1=1))
    assert read_loads(str(path)) is not None
