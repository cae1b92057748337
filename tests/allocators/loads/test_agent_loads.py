"""CPU load that agents report: what is kept of it, and how commands use it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asserting import some
from cluster_text import to_text
from clusters import generate
from json_damage import damaged

from ganeti_steward.allocators.loads import agent_loads
from ganeti_steward.allocators.loads.agent_loads import (
    KeptLoads,
    NodeLoad,
    read_loads,
    with_agent_loads,
    with_kept_loads,
    write_loads,
)
from ganeti_steward.allocators.loads.load_reports import NoLoads, with_node_loads
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster

if TYPE_CHECKING:
    from front import Front

SECOND = 10**9
NOW = 1_700_000_000 * SECOND


def cluster() -> Cluster:
    return read_text(to_text(generate("--nodes=4", "--seed=1", "--per-node=4", "--offline=1")))


def live(of: Cluster) -> list[str]:
    return [node.name for node in of.nodes if node.live]


def loads(of: Cluster) -> dict[str, NodeLoad]:
    names = enumerate(live(of), 1)
    return {name: NodeLoad(NOW - SECOND, 900, 16, at / 10, 0.5, None) for at, name in names}


def test_the_busy_cpus_of_a_node_are_shared_by_its_instances() -> None:
    found = cluster()
    busy = {name: 1.6 * at for at, name in enumerate(live(found), 1)}
    measured = with_agent_loads(found, loads(found), 900, NOW)
    expected = with_node_loads(found, busy)
    assert [one.cpu_load for one in measured.instances] == pytest.approx(
        [one.cpu_load for one in expected.instances]
    )
    assert len(busy) == 3


def test_one_unknown_node_leaves_all_unknown() -> None:
    found = cluster()
    name = live(found)[0]
    known = loads(found)
    for wrong, fault in (
        (None, "its agent has not reported its CPU load"),
        (known[name]._replace(cpu=None), "its agent has not reported its CPU load"),
        (
            known[name]._replace(at=NOW - 901 * SECOND),
            "its report is 901 s old, at most 900 s ",
        ),
        (known[name]._replace(at=NOW + 61 * SECOND), "its report is -61 s old"),
    ):
        changed = {key: one for key, one in known.items() if key != name}
        changed |= {} if wrong is None else {name: wrong}
        with pytest.raises(NoLoads) as raised:
            with_agent_loads(found, changed, 900, NOW)
        assert str(raised.value).startswith(f"node '{name}': {fault}")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found, path = cluster(), str(tmp_path / "new" / "loads.json")
    kept = KeptLoads(found.name, 900, loads(found))
    write_loads(kept, path)
    assert read_loads(path) == kept
    assert os.stat(path).st_mode & 0o777 == 0o600
    measured = with_kept_loads(found, path, NOW)
    assert measured.instances == with_agent_loads(found, kept.nodes, 900, NOW).instances


def test_what_cannot_be_used(tmp_path: Path) -> None:
    found, path = cluster(), str(tmp_path / "loads.json")
    with pytest.raises(NoLoads, match="the maintenance daemon writes it on the master"):
        with_kept_loads(found, path, NOW)
    write_loads(KeptLoads("other", 900, {}), path)
    with pytest.raises(NoLoads, match="is of the cluster 'other'"):
        with_kept_loads(found, path, NOW)
    with pytest.raises(NoLoads, match="cannot be used"):
        with_kept_loads(found, str(tmp_path), NOW)
    os.symlink(path, tmp_path / "link")
    with pytest.raises(NoLoads, match="cannot be used"):
        with_kept_loads(found, str(tmp_path / "link"), NOW)
    (tmp_path / "file").write_text("")
    with pytest.raises(StewardError, match="cannot be written"):
        write_loads(KeptLoads("c", 900, {}), str(tmp_path / "file" / "loads.json"))


def test_damage_is_a_sentence(tmp_path: Path) -> None:
    found, path = cluster(), tmp_path / "loads.json"
    write_loads(KeptLoads(found.name, 900, loads(found)), str(path))
    document = json.loads(path.read_bytes())
    used = set()
    for changed_at, changed in some(damaged(document)):
        path.write_text(json.dumps(changed))
        try:
            with_kept_loads(found, str(path), NOW)
        except NoLoads:
            continue
        used.add(changed_at[-1])
    # Of memory nothing needs to be known.
    assert used == {"memory"}


def test_balance_uses_what_is_kept(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, path = cluster(), str(tmp_path / "kept" / "loads.json")
    monkeypatch.setattr(agent_loads, "KEPT", path)
    monkeypatch.setattr(with_kept_loads, "__defaults__", (path, NOW))
    file = tmp_path / "cluster.data"
    file.write_text(to_text(generate("--nodes=4", "--seed=1", "--per-node=4", "--offline=1")))
    command = ("balance", "--text-data", str(file))
    plain = front(*command)
    without = front(*command, "--load")
    assert without.out == plain.out
    assert f"CPU load not used: there is no {path}" in without.err
    write_loads(KeptLoads(found.name, 900, loads(found)), path)
    loaded = front(*command, "--load")
    assert (loaded.status, loaded.err) == (0, "")
    assert loaded.out != plain.out
    ignored = front(*command, "--load", "--option=--ignore-dynu")
    assert (ignored.out, ignored.err) == (plain.out, "")
