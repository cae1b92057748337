"""Which rules still hold where an instance leaves an unusable node, or soft errors are ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from ask import hail, steward
from messages import body
from messages import message as sent

Message = dict[str, Any]


def _memory(message: Message) -> None:
    message["nodes"]["n2.test"]["free_memory"] = 1000


def _vcpus(message: Message) -> None:
    for name in ("e1.test", "d1.test"):
        message["instances"][name]["vcpus"] = 64


def _exclusion(message: Message) -> None:
    message["cluster_tags"] = ["htools:iextags:service"]
    for name in ("e1.test", "d1.test", "there.test"):
        instance = message["instances"].setdefault(name, {**body("ext"), "nodes": ["n2.test"]})
        instance["tags"] = ["service:web"]


def _migration(message: Message) -> None:
    message["cluster_tags"] = ["htools:migration:cpu"]
    message["nodes"]["n1.test"]["tags"] = ["cpu:new"]


def _n1(message: Message) -> None:
    """n2 keeps memory for an instance of n3, which itself has too little."""
    message["nodes"]["n3.test"]["free_memory"] = 1000
    message["instances"]["big.test"] = {**body("drbd"), "nodes": ["n3.test", "n2.test"]}
    message["instances"]["big.test"]["memory"] = 15_800


def _spindles(message: Message) -> None:
    for group in message["nodegroups"].values():
        group["ipolicy"]["spindle-ratio"] = 0.0


FAULTS: Final[Mapping[str, Callable[[Message], None]]] = {
    "none": lambda message: None,
    "memory": _memory,
    "vcpus": _vcpus,
    "exclusion": _exclusion,
    "migration": _migration,
    "N+1": _n1,
    "spindles": _spindles,
}
#: What is hard stands against each move; the rest only where the node that is left is usable.
HARD: Final = {"memory", "migration"}
#: An instance on external storage takes no spindles.
NOT_OF: Final = {("spindles", "e1.test")}


@pytest.mark.parametrize("options", [(), ("--ignore-soft-errors",)])
@pytest.mark.parametrize("state", ["usable", "drained", "offline"])
@pytest.mark.parametrize("name", ["e1.test", "d1.test"])
@pytest.mark.parametrize("fault", FAULTS)
def test_one_rule_at_a_time(
    fault: str, name: str, state: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """As hail has it, too; n2 is the only node that the instance may go to."""
    message = sent("relocate")
    message["request"] = {
        "type": "node-evacuate",
        "instances": [name],
        "evac_mode": "primary-only",
    }
    del message["nodes"]["n4.test"]
    if fault != "N+1":
        del message["nodes"]["n3.test"]
        del message["instances"]["p1.test"]
    FAULTS[fault](message)
    if state != "usable":
        message["nodes"]["n1.test"][state] = True
    options = ("--no-capacity-checks", *options)
    moved = {
        "ours": bool(steward(message, *options)["result"][0]),
        "hail": bool(hail(message, tmp_path, *options)["result"][0]),
    }
    soft = state != "usable" or len(options) > 1
    allowed = fault == "none" or (fault, name) in NOT_OF or (fault not in HARD and soft)
    assert moved == {"ours": allowed, "hail": allowed}
