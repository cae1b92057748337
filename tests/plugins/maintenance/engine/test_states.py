"""The properties of states are columns of one table, so a new state is one row."""

from __future__ import annotations

import ast
from typing import Final

import pytest
from asserting import some
from maintained import EVACUATE, OK, REPAIR, Maintained
from paths import ROOT

from ganeti_steward.plugins.maintenance.edges.store import rules_of
from ganeti_steward.plugins.maintenance.engine.brake_case import is_under_repair
from ganeti_steward.plugins.maintenance.engine.reservations import avoided_nodes
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN, TABLE, Event
from ganeti_steward.plugins.model import incident as incidents
from ganeti_steward.plugins.model.incident import NOTED, STATES, WARN, State

VERIFYING: Final = "verifying"
#: Modules that may name states: the table of states and that of transitions.
TABLES: Final = {
    "plugins/model/incident.py",
    "plugins/maintenance/engine/transitions.py",
}
NAMES: Final = {name for name, value in vars(incidents).items() if str(value) in STATES}


@pytest.fixture
def verifying(monkeypatch: pytest.MonkeyPatch) -> Maintained:
    """A cluster in which the evacuation of node2 is over and is being verified."""
    row = State(VERIFYING, under_repair=True, avoided="a verifying", look=WARN)
    monkeypatch.setitem(STATES, VERIFYING, row)
    done = {
        ("pending", Event.DONE): VERIFYING,
        (VERIFYING, Event.DONE): "completed",
        (VERIFYING, Event.CANCEL): "canceled",
    }
    for key, value in done.items():
        monkeypatch.setitem(TABLE, key, value)
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.run()
    assert cluster.incident("node2").status == VERIFYING
    return cluster


def test_a_new_state_is_not_tagged(verifying: Maintained) -> None:
    for _ in range(5):
        verifying.run()
    assert verifying.name("node2") == "node2"
    assert verifying.nodes["uuid-node2"].tags == ()
    assert "ready" not in str([one.job for one in verifying.queue.values()])
    assert "fail" not in str([one.job for one in verifying.queue.values()])


def test_a_new_state_counts_as_under_repair(verifying: Maintained) -> None:
    verifying.report("node3", EVACUATE)
    verifying.round()
    assert verifying.held() == {"most-nodes": "1 of at most 1 nodes are under repair: node2"}
    incident = verifying.incident("node2")
    assert is_under_repair(incident)
    assert rules_of(incident, 0)
    assert avoided_nodes(verifying.world())["node2"].startswith("has a verifying incident")
    verifying.wait(86401)
    verifying.round()
    assert "stuck" in verifying.held()


def test_a_new_state_ends_no_other_incident(verifying: Maintained) -> None:
    """Only one that has succeeded ends the less severe ones."""
    verifying.report("node2", REPAIR)
    verifying.round()
    assert verifying.incident("node2", "live-repair").active


def test_a_new_state_keeps_its_incident_though_the_node_is_healthy(verifying: Maintained) -> None:
    verifying.report("node2", OK)
    verifying.wait(10_000)
    verifying.round()
    assert verifying.incident("node2").status == VERIFYING
    verifying.tag("node2", verifying.incident("node2").cancel_tag)
    verifying.run()
    assert verifying.nodes["uuid-node2"].tags == ()


def test_every_state_has_columns_that_agree() -> None:
    for name, state in some(STATES.items()):
        assert not (state.active and (state.result or state.handled)), name
        assert not (state.under_repair and not state.begun), name
        assert not (state.result and state.handled), name
        assert name in (state.status, "acknowledged")
    rows = "plugins/maintenance/engine/transitions.py: TABLE has no transition"
    for name in STATES:
        assert name in {state for state, _ in TABLE}, f"{rows} from {name}"
        assert name in {NOTED, *TABLE.values()}, f"{rows} to {name}"
    for name in {state for state, _ in TABLE} | {*TABLE.values()} - {FORGOTTEN}:
        assert name in STATES, f"plugins/model/incident.py: STATES has no row for {name}"


def _names_states(tree: ast.AST) -> set[str]:
    """Names of states that a module imports from the table."""
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("model.incident")
        for alias in node.names
    } & NAMES


def _compares(tree: ast.AST) -> set[str]:
    """Words of states, written out, that something is compared with."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any("status" in ast.dump(one) or "state" in ast.dump(one) for one in sides):
                inner = (each for one in sides for each in ast.walk(one))
                found |= {one.value for one in inner if isinstance(one, ast.Constant)} & {*STATES}
    return found


def test_no_other_module_compares_states() -> None:
    assert {getattr(incidents, name) for name in NAMES} == STATES.keys(), (
        "give each state a constant in plugins/model/incident.py"
    )
    faults = {}
    for room in ("plugins/model", "plugins/maintenance", "plugins/filters", "plugins/exporter"):
        for file in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(file.read_text())
            named = _names_states(tree) | _compares(tree)
            name = str(file.relative_to(ROOT))
            if named and name not in TABLES and "harep" not in name:
                faults[name] = named
    assert faults == {}, "add a column to the table of states and read that"


def test_the_test_would_see_a_comparison() -> None:
    text = (
        "from ganeti_steward.plugins.model.incident import PENDING\n"
        "x = one.status in ('noted', 'a')"
    )
    assert _names_states(ast.parse(text)) == {"PENDING"}
    assert _compares(ast.parse(text)) == {"noted"}
