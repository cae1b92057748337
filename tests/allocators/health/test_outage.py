"""What a failure of nodes does to the instances on them."""

from __future__ import annotations

import orjson
import pytest
from asserting import some
from clusters import Message, generate
from thorough import seeds

from ganeti_steward.allocators.health.outage import RESTARTS, outage
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.iallocator.message import read_message


def _targets(message: Message, failed: str, template: str) -> dict[str, str]:
    """Where the instances of this template restart; empty: they stay down."""
    message = orjson.loads(orjson.dumps(message))
    message["nodes"][failed]["offline"] = True
    cluster, _ = read_message(orjson.dumps(message))
    found = outage(load(cluster, None, 4096), {failed})
    return {
        one.instance: one.target if one.effect == RESTARTS else ""
        for one in found
        if message["instances"][one.instance]["disk_template"] == template
    }


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_what_has_a_choice_takes_no_room_from_what_has_none(seed: int) -> None:
    """Instances on shared disks start on any node, those with two copies on their secondary."""
    message = generate(
        f"--nodes={(3, 4, 6)[seed % 3]}",
        "--per-node=14",
        "--mix=drbd=1,ext=2",
        "--fill=.85",
        f"--seed={seed}",
    )
    for failed in some(message["nodes"]):
        kept = {
            name: one
            for name, one in message["instances"].items()
            if one["disk_template"] == "drbd" or one["nodes"] != [failed]
        }
        alone = {**message, "instances": kept}
        assert _targets(message, failed, "drbd") == _targets(alone, failed, "drbd")


def test_what_is_on_shared_disks_restarts_in_its_group() -> None:
    given = generate("--nodes=6", "--groups=2", "--mix=ext=1", "--per-node=4", "--fill=.3")
    groups = {name: node["group"] for name, node in given["nodes"].items()}
    failed = next(iter(given["nodes"]))
    given["nodes"][failed]["offline"] = True
    # The other group has the most memory free.
    for name, node in given["nodes"].items():
        if groups[name] != groups[failed]:
            node["free_memory"] = node["total_memory"] - 1024
    given["instances"] = {
        name: one
        for name, one in given["instances"].items()
        if groups[one["nodes"][0]] == groups[failed]
    }
    cluster, _ = read_message(orjson.dumps(given))
    found = [one.target for one in some(outage(load(cluster, None, 4096), {failed})) if one.target]
    assert {groups[target] for target in some(found)} == {groups[failed]}
