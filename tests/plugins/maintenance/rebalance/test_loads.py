"""CPU load of the monitoring daemons: what counts, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import changed, instance, node, world

from ganeti_steward.allocators.loads.load_reports import (
    NODE_COLLECTOR,
    XEN_COLLECTOR,
    NoLoads,
)
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.maintenance.config import Rebalance
from ganeti_steward.plugins.maintenance.rebalance import moves
from ganeti_steward.plugins.maintenance.rebalance.moves import loaded, with_load_reports
from ganeti_steward.plugins.maintenance.rebalance.plugin import Rebalancing
from ganeti_steward.plugins.model.task import Wait
from ganeti_steward.plugins.model.world import World

XEN = Rebalance(load_data="mond-xen", hold_time=0)
NODE = Rebalance(load_data="mond", hold_time=0)
MADE = [instance("a", "n1", "n2"), instance("b", "n2", "n1")]


def xen(**data: float) -> dict[str, Any]:
    return {"name": XEN_COLLECTOR, "data": data}


def seen(reports: dict[str, Any], **status: str) -> World:
    made = [changed(one, status=status.get(one.name, "running")) for one in MADE]
    return world([node("n1"), node("n2")], made)._replace(load_reports=reports)


def xen_loads(reports: dict[str, Any], **status: str) -> list[float | None]:
    return [one.cpu_load for one in loaded(seen(reports, **status), XEN).instances]


def test_loads_of_nodes_and_instances() -> None:
    whole = {name: {"name": NODE_COLLECTOR, "data": {"cpu_total": 2.0}} for name in ("n1", "n2")}
    assert all(one.cpu_load for one in loaded(seen(whole), NODE).instances)
    assert xen_loads({"n1": xen(a=0.5), "n2": xen(b=1.5)}) == [0.5, 1.5]


def test_an_instance_that_was_moved_has_the_load_of_its_old_node() -> None:
    assert xen_loads({"n1": xen(), "n2": xen(a=0.7, b=1.5)}) == [0.7, 1.5]


def test_an_instance_that_does_not_run_has_none() -> None:
    reports = {"n1": xen(), "n2": xen(b=1.5)}
    assert xen_loads(reports, a="ERROR_down") == [0.0, 1.5]
    with pytest.raises(NoLoads, match="it reports no load of instance 'a'"):
        xen_loads(reports)


@pytest.mark.parametrize(
    ("reports", "fault"),
    [
        ({"n1": xen(a=1)}, "node 'n2': its load was not read"),
        ({"n1": xen(a=1), "n2": 5}, "node 'n2': its report is"),
        ({"n1": xen(a=1), "n2": {**xen(), "data": {"error": "young"}}}, "contains an error"),
    ],
)
def test_nothing_is_moved_without_it(reports: dict[str, Any], fault: str) -> None:
    plugin = Rebalancing()
    plugin.configure(XEN)
    (wait,) = plugin.steward_routine(seen(reports), Context())
    assert isinstance(wait, Wait)
    assert wait.reason.startswith("nothing is moved: the CPU load is not known: ")
    assert fault in wait.reason


def test_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a fault; without the setting nothing is queried."""
    calls: list[Any] = []

    def query(nodes: tuple[str, ...], collector: str, limit: float) -> dict[str, object]:
        calls.append((nodes, collector, limit))
        if len(calls) == 2:
            raise NoLoads.of("n2", "no answer")
        return {"n1": xen(a=1.0)}

    monkeypatch.setattr(moves, "query", query)
    plain = seen({})
    assert with_load_reports(plain, Rebalance()) is plain
    found = with_load_reports(plain, XEN)
    assert found.load_reports == {"n1": xen(a=1.0)}
    assert with_load_reports(plain, XEN).load_fault == "node 'n2': no answer"
    assert calls == [(("n1", "n2"), XEN_COLLECTOR, 5)] * 2
    kept = from_json(World, to_json(World, found))
    assert kept.load_reports == found.load_reports
