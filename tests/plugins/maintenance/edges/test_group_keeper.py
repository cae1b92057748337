"""What the daemon keeps for allocators: where it comes from, and when it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from asserting import some
from json_damage import damaged
from worlds import NOW, SECOND, node, world

from ganeti_steward.allocators.state.volume_groups import (
    KeptGroups,
    NodeGroups,
    Suspicion,
    read_kept,
    write_kept,
)
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.edges.volume_groups import (
    GroupKeeper,
    Places,
    kept_with,
    places,
    read_apart,
    read_places,
)
from ganeti_steward.plugins.model.world import Observation, Reported, Silent, World

#: Of a cluster of Ganeti 3.0.2 in the lab, without what is not about disks and without interfaces.
RECORDED: Final = Path(__file__).parents[3] / "data" / "volume-groups"
DISKS: Final = {
    "inst1.lab": (("labvg", "labvg"), ("fast", "fast")),
    "inst2.lab": (("fast", ""),),
    "inst5.lab": (("fast", ""),),
    "inst8.lab": (("labvg", "fast"),),
}
HERE: Final = Places("cluster.lab", "labvg", DISKS)


def configuration() -> Any:
    return json.loads((RECORDED / "config.data").read_text())


def test_where_the_disks_lie() -> None:
    """Those in the cluster's own group, and instances of other storage, are left out."""
    assert places(configuration()) == HERE
    assert read_places(str(RECORDED)) == HERE
    # As the daemon reads it.
    assert read_apart(str(RECORDED)) == HERE


def test_metadata_of_new_disks() -> None:
    found = configuration()
    found["cluster"]["diskparams"]["drbd"]["metavg"] = "fast"
    assert places(found) == HERE._replace(metadata_group="fast")
    for nothing in (None, {}, {"drbd": None}, {"drbd": {}}):
        found["cluster"]["diskparams"] = nothing
        assert places(found) == HERE


def test_a_cluster_without_a_volume_group() -> None:
    found = configuration()
    found["cluster"]["volume_group_name"] = None
    assert places(found).volume_group == ""


def test_disks_in_another_form_have_no_known_place() -> None:
    """Nothing else is lost by one of them."""
    document = configuration()
    (chosen,) = (one for one in document["instances"].values() if one["name"] == "inst2.lab")
    (disk,) = chosen["disks"]
    others = {name: placed for name, placed in DISKS.items() if name != "inst2.lab"}
    for path, changed in some(damaged(document["disks"][disk])):
        document["disks"][disk] = changed
        found = places(document)
        if path[0] in ("dev_type", "logical_id"):
            assert {name: found.disks[name] for name in others} == others, path
        else:
            assert found == HERE, path
    del document["disks"][disk]
    assert places(document).disks == others


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"cluster": {}, "disks": {}}'])
@pytest.mark.parametrize("read", [read_places, read_apart])
def test_a_configuration_of_something_else(
    tmp_path: Path, content: str, read: Callable[[str], Places]
) -> None:
    (tmp_path / "config.data").write_text(content)
    with pytest.raises(StewardError, match=r"config\.data is not what Ganeti 3 writes"):
        read(str(tmp_path))


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_apart(str(tmp_path))
    os.mkfifo(tmp_path / "config.data")
    with pytest.raises(StewardError, match="it is not a regular file"):
        read_apart(str(tmp_path))


# -- What is kept


GROUPS: Final = {"labvg": (900, 300), "fast": (800, 200)}


def test_the_newest_figures_stay() -> None:
    old, new = NodeGroups(5, GROUPS), NodeGroups(6, {"labvg": (900, 1)})
    before = KeptGroups("cluster.lab", "x", 1, {"n1": old, "n2": new, "gone": new}, {})
    found = kept_with(before, HERE, {"n1": new, "n2": old}, ("n1", "n2", "n3"), 900)
    assert found == KeptGroups("cluster.lab", "labvg", 900, {"n1": new, "n2": new}, DISKS)
    other = kept_with(before._replace(cluster="other"), HERE, {"n1": old}, ("n1", "n2"), 900)
    assert other.nodes == {"n1": old}


class Kept:
    """A keeper whose configuration a test changes, and which counts its readings."""

    def __init__(self, path: Path) -> None:
        self.path, self.found, self.readings, self.max_age = path / "kept.json", HERE, 0, 900.0
        self.data = path / "config.data"
        self.keeper = GroupKeeper(
            lambda: self.max_age, data=str(path), path=str(self.path), read=self._read
        )
        self.change(HERE)

    def _read(self, data: str) -> Places:
        self.readings += 1
        return self.found

    def change(self, found: Places) -> None:
        """Ganeti writes another file in the place of its configuration."""
        self.found = found
        other = self.data.with_suffix(".new")
        other.write_text(str(self.readings))
        other.rename(self.data)

    def __call__(self, seconds: int, **observations: Observation) -> KeptGroups | None:
        """What is kept after a round so many seconds later; None: nothing was written."""
        before = os.stat(self.path).st_ino if self.path.exists() else 0
        self.keeper(seen(seconds, **observations))
        if not self.path.exists() or os.stat(self.path).st_ino == before:
            return None
        return read_kept(str(self.path))


def seen(seconds: int, **observations: Observation) -> World:
    nodes = map(node, ("n1", "n2"))
    return world(nodes, observations=observations, now=NOW + seconds * SECOND)


def reported(seconds: int, groups: Any = None) -> Reported:
    at = NOW + seconds * SECOND
    return Reported(canonical({"status": "Ok"}), "Ok", "", at, volume_groups=groups)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_reports_are_kept(kept: Kept) -> None:
    found = kept(10, n1=reported(3, GROUPS), n2=reported(4))
    figures = NodeGroups(NOW // SECOND + 3, GROUPS)
    assert found == KeptGroups("cluster.lab", "labvg", 900, {"n1": figures}, DISKS)
    # What a node has reported stays while it is silent.
    assert kept(20, n1=Silent(NOW, "no route")) is None
    assert read_kept(str(kept.path)) == found


def test_it_is_written_when_it_says_more(kept: Kept) -> None:
    assert kept(0, n1=reported(0, GROUPS))
    assert kept(60, n1=reported(60, GROUPS)) is None
    # Other figures, another group, a further node: at once.
    less = GROUPS | {"fast": (800, 100)}
    assert kept(61, n1=reported(61, less))
    assert kept(62, n1=reported(62, less), n2=reported(62, {}))
    # The same figures: before they become too old.
    same = {"n1": reported(362, less), "n2": reported(362, {})}
    assert kept(362, **same) is None
    found = kept(363, n1=reported(363, less), n2=reported(363, {}))
    assert found
    assert found.nodes["n1"].at == NOW // SECOND + 363
    # Another limit.
    kept.max_age = 1800
    changed = kept(364, n1=reported(364, less))
    assert changed
    assert changed.max_age == 1800


def test_nothing_is_written_where_nothing_lies_elsewhere(kept: Kept) -> None:
    kept.change(HERE._replace(disks={}))
    usual = {"labvg": (900, 300)}
    assert kept(0, n1=reported(0, usual), n2=reported(0)) is None
    assert not kept.path.exists()
    # A group that a request may name.
    found = kept(60, n1=reported(60, GROUPS))
    assert found
    assert found.disks == {}
    # From then on it is kept up.
    assert kept(120, n1=reported(120, usual))


def ill(seconds: int, status: str, source: str = "smart:S1") -> Reported:
    found = {"status": status, "details": [{"source": source, "status": status}]}
    return Reported(canonical(found), status, "", NOW + seconds * SECOND)


def test_suspect_nodes_are_kept(kept: Kept) -> None:
    """Also on a cluster without anything else to keep; what is silent stays as it was."""
    kept.change(Places("cluster.lab", "", {}))
    assert kept(0, n1=reported(0), n2=reported(0)) is None
    found = kept(10, n1=ill(10, "suspect"), n2=reported(10))
    assert found
    at = NOW // SECOND
    assert found.suspects == {"n1": Suspicion(at + 10, "reports suspect: smart:S1")}
    assert kept(20, n1=Silent(NOW, "no route"), n2=reported(20)) is None
    # It says so still: in time before that is too old.
    assert kept(300, n1=ill(300, "suspect")) is None
    again = kept(311, n1=ill(311, "suspect"))
    assert again
    assert again.suspects["n1"].at == at + 311
    # What is worse must not make it one of those that are used first.
    worse = kept(320, n1=ill(320, "live-repair"))
    assert worse
    assert worse.suspects["n1"].why == "reports live-repair: smart:S1"
    over = kept(330, n1=reported(330))
    assert over
    assert over.suspects == {}
    assert kept(340, n1=reported(340)) is None


@pytest.mark.parametrize("source", ["ganeti:watcher", "ganeti:queue", "ganeti:server.pem"])
def test_the_master_is_not_suspect_for_what_the_cluster_has(kept: Kept, source: str) -> None:
    kept.change(HERE)
    found = kept(0, n1=ill(0, "live-repair", source), n2=ill(0, "live-repair", "ganeti:kvm"))
    assert found
    assert {*found.suspects} == {"n2"}


def test_a_command_keeps_them() -> None:
    suspects = {"n1": Suspicion(5, "reports suspect"), "gone": Suspicion(5, "reports suspect")}
    before = KeptGroups("cluster.lab", "x", 1, {}, {}, suspects=suspects)
    assert {*kept_with(before, HERE, {}, ("n1", "n2"), 900).suspects} == {"n1"}
    other = before._replace(cluster="other")
    assert kept_with(other, HERE, {}, ("n1", "n2"), 900).suspects == {}


def test_the_daemon_plans_with_what_nodes_report() -> None:
    """At once, whatever the file says."""
    found = seen(0, n1=ill(0, "suspect"), n2=reported(0)).with_suspicions()
    assert [one.suspect for one in found.cluster.nodes] == ["reports suspect: smart:S1", ""]
    silent = found._replace(observations={"uuid-n1": Silent(NOW, "no route")})
    assert silent.with_suspicions() is silent
    well = found._replace(observations={found.cluster.nodes[0].uuid: reported(9)})
    assert [one.suspect for one in well.with_suspicions().cluster.nodes] == ["", ""]


def test_no_volume_group_of_the_cluster(kept: Kept) -> None:
    kept.change(Places("cluster.lab", "", {}))
    assert kept(0, n1=reported(0, GROUPS)) is None


def test_the_configuration_is_read_after_a_change_once_a_minute(kept: Kept) -> None:
    assert kept(0)
    for seconds in (10, 70, 130):
        kept(seconds)
    assert kept.readings == 1
    moved = HERE._replace(disks={"inst2.lab": (("fast", ""),)})
    kept.change(moved)
    found = kept(140)
    assert found
    assert found.disks == moved.disks
    kept.change(HERE)
    assert kept(150) is None
    assert kept.readings == 2
    assert kept(200)
    assert kept.readings == 3


def test_without_a_configuration_nothing_is_done(kept: Kept) -> None:
    kept.data.unlink()
    assert kept(0, n1=reported(0, GROUPS)) is None
    assert not kept.path.exists()


def test_a_configuration_that_fails_is_read_again(kept: Kept, monkeypatch: Any) -> None:
    def fails(data: str) -> Places:
        raise StewardError("broken")

    keeper = GroupKeeper(lambda: 900, data=str(kept.data.parent), path=str(kept.path), read=fails)
    for seconds in (0, 10):
        with pytest.raises(StewardError, match="broken"):
            keeper(seen(seconds))
    assert not kept.path.exists()


def test_a_file_that_cannot_be_used_is_written_again(kept: Kept) -> None:
    first = kept(0, n1=reported(0, GROUPS))
    for content in (b"{", b"[]", b'{"cluster": "cluster.lab"}'):
        kept.path.write_bytes(content)
        assert kept(1, n1=reported(0, GROUPS)) == first


def test_figures_of_a_command_stay(kept: Kept) -> None:
    """Where the nodes have no agents, the daemon keeps up where the disks lie."""
    figures = NodeGroups(NOW // SECOND - 7, GROUPS)
    write_kept(KeptGroups("cluster.lab", "labvg", 900, {"n1": figures}, {}), str(kept.path))
    found = kept(0)
    assert found
    assert (found.nodes, found.disks) == ({"n1": figures}, DISKS)
