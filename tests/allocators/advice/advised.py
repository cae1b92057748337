"""Clusters and requests for tests of suggestions, and what is suggested."""

from __future__ import annotations

from typing import Any, Final

from messages import node, policy

from ganeti_steward.allocators.advice.advise import advise
from ganeti_steward.allocators.advice.case import Case, Suggestion, is_complete
from ganeti_steward.allocators.advice.proposals import Trials
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.cluster import Disk, Instance
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import (
    Allocate,
)
from ganeti_steward.core.model.site_rules import Ban, NoSiteRules

Json = dict[str, Any]

NAMES: Final = ("a", "b", "c")
NO_TEST: Final = Options(capacity_checks=False)


def message(*names: str, **changes: Json) -> Json:
    """Nodes of 16384 MiB free memory and 102400 MiB disk in one group; ``changes`` per node."""
    return {
        "cluster_tags": ["htools:iextags:service"],
        "enabled_hypervisors": ["xen-pvm"],
        "nodegroups": {"uuid-g": group("g")},
        "nodes": {name: node() | changes.get(name, {}) for name in names or NAMES},
        "instances": {},
    }


def group(name: str, **changes: Any) -> Json:
    return {
        "name": name,
        "alloc_policy": "preferred",
        "networks": [],
        "tags": [],
        "ipolicy": policy(),
    } | changes


def put(message: Json, name: str, nodes: list[str], **changes: Any) -> None:
    """An instance on its nodes, which report what it takes."""
    instance = {
        "memory": 4096,
        "vcpus": 1,
        "spindle_use": 1,
        "disk_space_total": 1024,
        "disks": [{"size": 1024}],
        "disk_template": "drbd" if len(nodes) == 2 else "ext",
        "tags": [],
        "nics": [],
        "admin_state": "up",
        "nodes": nodes,
    } | changes
    message["instances"][name] = instance
    message["nodes"][nodes[0]]["free_memory"] -= instance["memory"]
    if instance["disk_template"] in ("drbd", "plain"):
        for one in nodes:
            message["nodes"][one]["free_disk"] -= instance["disk_space_total"]


def wanted(template: str = "ext", memory: int = 1024, disk: int = 1024, **changes: Any) -> Instance:
    space = disk + (128 if template == "drbd" else 0)
    disks = () if template == "diskless" else (Disk(disk, None),)
    one = Instance(
        "new", memory, 1, space, disks, template, 1, (), (), "up", forthcoming=False, nodes=()
    )
    return one._replace(**changes)


def allocate(instance: Instance, **changes: Any) -> Allocate:
    return Allocate(instance, 2 if instance.template == "drbd" else 1, **changes)


class Engine(Trials):
    """The allocators of the default configuration, and one site rule."""

    def __init__(self, bans: tuple[Ban, ...] = ()) -> None:
        super().__init__(Config())
        self._bans = bans

    def rules(self, request: object) -> Any:
        rules = NoSiteRules()
        rules.bans = lambda cluster, instance: self._bans  # type: ignore[method-assign]
        return rules


def advised(
    request: Any, message: Json, options: Options = NO_TEST, engine: Trials | None = None
) -> dict[str, list[Suggestion]]:
    """The suggestions by kind; each is tried here once more."""
    case = Case(request, read_cluster(message), options)
    engine = engine or Engine()
    advice = advise(case, engine, 1e9)
    assert not advice.bounded
    found: dict[str, list[Suggestion]] = {}
    for one in advice.suggestions:
        found.setdefault(one.kind, []).append(one)
        if not one.case.without:
            context = Context(one.case.options, engine.rules(one.case.request))
            outcome = engine.outcome(one.case.request, one.case.cluster, context)
            assert is_complete(outcome, one.case.request), one.text
    return found


def texts(found: dict[str, list[Suggestion]], kind: str) -> list[str]:
    return [one.text for one in found.get(kind, [])]


def crowded() -> Json:
    """Two thirds of each node are taken, by a large and a small instance on ``a``."""
    data = message()
    put(data, "large", ["a"], memory=8192)
    put(data, "small", ["a"], memory=2048)
    put(data, "other", ["b"], memory=10240)
    put(data, "third", ["c"], memory=9216)
    return data


def secondary_full() -> Json:
    """``one`` is on a and b; c would take it if ``full`` was elsewhere."""
    data = message("a", "b", "c")
    put(data, "one", ["a", "b"], memory=1024, disk_space_total=30000, disks=[{"size": 29872}])
    put(data, "full", ["b", "c"], memory=128, disk_space_total=80000, disks=[{"size": 79872}])
    return data
