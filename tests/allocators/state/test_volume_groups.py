"""What is kept of volume groups, put into a message; whatever is wrong with the file."""

from __future__ import annotations

import copy
import json
import logging
import os
from pathlib import Path
from typing import Any, Final

import pytest
from asserting import some
from clusters import KINDS, cluster
from hypothesis import given
from hypothesis import strategies as st
from json_damage import damaged
from messages import message, wanted

from ganeti_steward.allocators.state.volume_groups import (
    KeptGroups,
    NodeGroups,
    Suspicion,
    completed,
    read_kept,
    write_kept,
)
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.iallocator.message import read_parsed
from ganeti_steward.core.json_reader import LIMIT
from ganeti_steward.core.model.cluster import VolumeGroup
from ganeti_steward.core.typed_json import from_json, to_json

Json = dict[str, Any]

NOW: Final = 1_700_000_000
NODE: Final = NodeGroups(NOW - 100, {"xenvg": (900, 300), "hdd": (800, 200)})
KEPT: Final = KeptGroups(
    "c.test",
    "xenvg",
    900,
    {"n1.test": NODE, "n2.test": NODE._replace(at=NOW - 50)},
    {"db": (("xenvg", "xenvg"), ("hdd", "ssd"))},
)


def sent(**request: Any) -> Json:
    """A message of two nodes with a drbd instance of two disks."""
    made = message()
    nodes = made["nodes"]
    made["nodes"] = {f"n{i}.test": copy.deepcopy(nodes["n1.test"]) for i in (1, 2)}
    disks = [{"size": 10240, "mode": "rw", "spindles": None} for _ in range(2)]
    instance = {**wanted("db", "drbd"), "disks": disks, "disk_space_total": 20736}
    made["instances"] = {
        "db": {**instance, "nodes": ["n1.test", "n2.test"]},
        "web": {**wanted("web", "drbd"), "nodes": ["n2.test", "n1.test"]},
    }
    made["request"] = {"type": "allocate", **wanted("new", "plain"), **request}
    return made | {"cluster_name": "c.test"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "volume-groups.json")


def test_figures_and_places(path: str) -> None:
    write_kept(KEPT, path)
    given_one = sent()
    before = copy.deepcopy(given_one)
    found = completed(given_one, NOW, path)
    assert given_one == before
    assert found["volume_groups_age"] == 100
    read, _ = read_parsed(found)
    assert read.volume_group == "xenvg"
    assert [node.volume_groups for node in read.nodes] == [{"hdd": VolumeGroup(800, 200)}] * 2
    db, web = read.instances
    places = [(disk.volume_group, disk.metadata_group) for disk in db.disks]
    assert places == [("", ""), ("hdd", "ssd")]
    assert db.elsewhere == {"hdd": 10240, "ssd": 128}
    assert web == read_parsed(given_one)[0].instances[1]
    # The rest is what Ganeti has sent.
    assert found.keys() - before.keys() == {"volume_group", "volume_groups_age"}
    assert found["nodegroups"] is given_one["nodegroups"]
    assert found["request"] is given_one["request"]


@pytest.mark.parametrize(("age", "used"), [(0, True), (800, True), (801, False), (-161, False)])
def test_old_figures_are_unknown(path: str, age: int, used: bool) -> None:
    """Those of n1 are 100 s older; figures from the future are a clock that was set back."""
    write_kept(KEPT._replace(nodes={"n1.test": NODE}), path)
    found = completed(sent(), NOW + age, path)
    assert ("volume_groups" in found["nodes"]["n1.test"]) == used
    assert ("volume_groups_age" in found) == used
    assert "volume_groups" not in found["nodes"]["n2.test"]
    # Where the disks lie does not change with time.
    assert found["instances"]["db"]["disks"][1]["vg"] == "hdd"


SUSPECTS: Final = {"n1.test": Suspicion(NOW - 100, "reports suspect: smart:S1: failing")}


@pytest.mark.parametrize(("age", "used"), [(0, True), (800, True), (801, False), (-161, False)])
def test_suspect_nodes(path: str, age: int, used: bool) -> None:
    """Whatever lies where; what was reported too long ago is not known."""
    write_kept(KEPT._replace(disks={}, suspects=SUSPECTS), path)
    given_one = sent(disks=[{"size": 1024, "vg": "xenvg"}])
    before = copy.deepcopy(given_one)
    found = completed(given_one, NOW + age, path)
    assert given_one == before
    assert (found is given_one) != used
    read, _ = read_parsed(found)
    why = "reports suspect: smart:S1: failing" if used else ""
    assert [node.suspect for node in read.nodes] == [why, ""]
    # It has no volume groups that it does not need.
    assert [node.volume_groups for node in read.nodes] == [None, None]
    other = given_one | {"cluster_name": "other.test"}
    assert completed(other, NOW + age, path) is other


def test_suspect_nodes_beside_volume_groups(path: str) -> None:
    write_kept(KEPT._replace(suspects=SUSPECTS), path)
    read, _ = read_parsed(completed(sent(), NOW, path))
    assert [node.volume_groups for node in read.nodes] == [{"hdd": VolumeGroup(800, 200)}] * 2
    assert [bool(node.suspect) for node in read.nodes] == [True, False]
    for nodes in ([], {"n1.test": 1}, {"n2.test": {}}, None):
        strange = {"cluster_name": "c.test", "nodes": nodes, "request": {}}
        write_kept(KEPT._replace(disks={}, suspects=SUSPECTS), path)
        assert completed(strange, NOW, path) is strange


def test_the_message_stays_where_nothing_lies_elsewhere(path: str) -> None:
    usual = sent(disks=[{"size": 1024, "vg": "xenvg"}])
    assert completed(usual, NOW, path) is usual
    write_kept(KEPT._replace(disks={}), path)
    for one in (usual, sent(), usual | {"request": None}, usual | {"request": {"disks": 1}}):
        assert completed(one, NOW, path) is one
    other = usual | {"cluster_name": "other.test"}
    write_kept(KEPT, path)
    assert completed(other, NOW, path) is other
    assert completed(usual, NOW, path) is not usual


@pytest.mark.parametrize("key", ["vg", "metavg"])
def test_a_request_names_another_group(path: str, key: str) -> None:
    write_kept(KEPT._replace(disks={}), path)
    disk = {"size": 1024, "vg": "xenvg"} | {key: "hdd"}
    for request in (
        {"disks": [disk]},
        {"type": "multi-allocate", "instances": [{"disks": []}, {"disks": [disk]}]},
    ):
        found = completed(sent(**request), NOW, path)
        assert found["nodes"]["n1.test"]["volume_groups"] == {"hdd": {"total": 800, "free": 200}}


def test_metadata_of_new_disks(path: str) -> None:
    """Ganeti's message does not say where metadata go by the cluster's disk parameters."""
    write_kept(KEPT._replace(disks={}, metadata_group="ssd"), path)
    own = {**wanted("new", "drbd"), "disks": [{"size": 1}, {"size": 1, "metavg": "hdd"}]}
    plain = wanted("other", "plain")
    single = completed(sent(**own), NOW, path)["request"]
    assert [disk["metavg"] for disk in single["disks"]] == ["ssd", "hdd"]
    batch = completed(sent(instances=[own, plain]), NOW, path)["request"]["instances"]
    assert [disk["metavg"] for disk in batch[0]["disks"]] == ["ssd", "hdd"]
    assert batch[1] == plain


def test_groups_that_nothing_uses(path: str) -> None:
    """That of the nodes' systems is none of an allocation; a command may plan disks anywhere."""
    system = NODE._replace(groups={**NODE.groups, "sys": (50, 5)})
    write_kept(KEPT._replace(nodes={"n1.test": system}), path)
    given_one = sent()
    assert set(completed(given_one, NOW, path)["nodes"]["n1.test"]["volume_groups"]) == {"hdd"}
    named = sent(disks=[{"size": 1024, "vg": "sys"}])
    found = completed(named, NOW, path)["nodes"]["n1.test"]["volume_groups"]
    assert set(found) == {"hdd", "sys"}
    del given_one["request"]
    found = completed(given_one, NOW, path)["nodes"]["n1.test"]["volume_groups"]
    assert set(found) == {"hdd", "sys"}


def test_disks_that_were_added_since(path: str) -> None:
    """Those have no known place; those that were removed are not there."""
    for places, expected in (
        ([("hdd", "hdd")], ["hdd", None]),
        ([("xenvg", "xenvg"), ("hdd", "hdd"), ("hdd", "hdd")], ["xenvg", "hdd"]),
    ):
        write_kept(KEPT._replace(disks={"db": tuple(places), "gone": (("hdd", ""),)}), path)
        found = completed(sent(), NOW, path)["instances"]
        assert [disk.get("vg") for disk in found["db"]["disks"]] == expected
        assert found.keys() == {"db", "web"}


def test_every_damage_to_the_file(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the message is answered as Ganeti has sent it."""
    kept = json.loads(json.dumps(to_json(KeptGroups, KEPT)))
    given_one = sent(disks=[{"size": 1024, "vg": "hdd"}])
    for where, changed in some(damaged(kept)):
        Path(path).write_text(json.dumps(changed))
        caplog.clear()
        found = completed(given_one, NOW, path)
        read_parsed(found)
        try:
            other = from_json(KeptGroups, changed).cluster != "c.test"
        except ValueError:
            assert found is given_one, where
            assert len(caplog.records) == 1, where
        else:
            assert (found is given_one) == other, where
            assert not caplog.records, where


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b'{"cluster":1}'])
def test_a_file_that_is_another(
    path: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    Path(path).write_bytes(content)
    given_one = sent()
    assert completed(given_one, NOW, path) is given_one
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.startswith(f"volume groups and suspect nodes are not known: {path}: ")
    with pytest.raises(StewardError, match="cannot be used"):
        read_kept(path)


def test_a_file_that_another_user_may_have_put_there(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_kept(KEPT, str(tmp_path / "other"))
    given_one = sent()
    os.symlink(tmp_path / "other", path)
    assert completed(given_one, NOW, path) is given_one
    assert "it is a symbolic link, which is not followed" in caplog.text
    os.unlink(path)
    os.link(tmp_path / "other", path)
    assert completed(given_one, NOW, path) is given_one
    assert "names (hard links)" in caplog.text


def test_it_is_private(path: str) -> None:
    write_kept(KEPT, path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert read_kept(path) == KEPT
    assert read_kept(f"{path}.none") is None


@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_all_kinds(path: str, kind: str) -> None:
    """Every generated message can be read with what is kept of it."""
    given_one = cluster(11, kind)
    given_one["cluster_name"] = "c.test"
    names = [*given_one["instances"]]
    places = dict.fromkeys(names[::2], (("hdd", "ssd"),) * 9)
    nodes = dict.fromkeys(given_one["nodes"], NODE)
    write_kept(KEPT._replace(nodes=nodes, disks=places), path)
    read, request = read_parsed(completed(given_one, NOW, path))
    plain, same = read_parsed(given_one)
    assert request == same
    outside = {one.name for one in read.instances if one.elsewhere}
    assert outside == {one.name for one in plain.instances if one.local} & {*places}
    assert all(set(node.volume_groups or ()) == {"hdd"} for node in read.nodes if node.live)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-LIMIT, LIMIT) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["nodes", "instances", "request"]), _JSON),
    st.sampled_from([None, "n1.test", "db"]),
    _JSON,
)
def test_a_message_in_no_form_is_left_to_its_reader(
    tmp_path_factory: pytest.TempPathFactory, more: Json, name: str | None, value: Any
) -> None:
    """Whatever was sent: completing it raises nothing."""
    path = str(tmp_path_factory.getbasetemp() / f"kept-{os.getpid()}.json")
    write_kept(KEPT._replace(metadata_group="ssd"), path)
    given_one = sent() | more
    for part in ("nodes", "instances"):
        if name and isinstance(given_one[part], dict):
            given_one[part] = {**given_one[part], name: value}
    assert completed(given_one, NOW, path)["volume_group"] == "xenvg"
