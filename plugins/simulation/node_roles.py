"""The roles of nodes as Ganeti changes them: one of three at most, and a pool of candidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from ganeti_steward.plugins.simulation.jobs import JobFailed, Operation, Row
from ganeti_steward.plugins.simulation.luxid import Configuration

#: Those that exclude each other.
_ROLES: Final = ("master_candidate", "drained", "offline")


class Roles(Configuration, Protocol):
    """Nodes with roles."""

    def answers(self, node: str) -> bool:
        """Whether the node daemon answers."""

    def set_roles(self, node: str, **roles: bool) -> None:
        """Give a node roles, or take them from it."""

    def promote(self) -> None:
        """Make nodes master candidates where there are too few."""


def change_roles(state: Roles, node: Row, operation: Operation) -> Iterator[Any]:
    """The checks of ``OP_NODE_SET_PARAMS``, a ``yield``, and what is done then.

    A second ``yield`` has the roles that have changed.  Raises JobFailed.
    """
    given = {role: operation[role] for role in _ROLES if operation.get(role) is not None}
    demotes = given.get("master_candidate") is False
    demotes |= bool(given.get("drained") or given.get("offline"))
    fills = demotes and operation.get("auto_promote")
    _check(node, given)
    if node["master_candidate"] and demotes and not fills:
        _enough_candidates(state, node["name"])
    # A flag that is not set is not unset.
    changes = {role: new for role, new in given.items() if new or node[role]}
    if changes.get("drained") is False or changes.get("offline") is False:
        # Back in service it becomes a candidate by itself, but only where there are too few.
        changes |= {"master_candidate": True} if _lacks_candidate(state) else {}
    role = next((role for role, new in changes.items() if new), "")
    after = {one: one == role if changes else bool(node[one]) for one in _ROLES}
    leaves = node["offline"] and not after["offline"]
    if leaves and not state.answers(node["name"]):
        text = f"Node {node['name']} is being de-offlined but fails to report its version"
        raise JobFailed(text, "wrong_state")
    yield
    changed = [[one, str(new)] for one, new in after.items() if bool(node[one]) != new]
    state.set_roles(node["name"], **after)
    if fills:
        state.promote()
    yield changed


def _check(node: Row, given: dict[str, bool]) -> None:
    name = node["name"]
    if sum(given.values()) > 1:
        text = "Can't set the node into more than one state at the same time"
        raise JobFailed(text, "wrong_input")
    if node["master"] and given:
        text = "The master role can be changed only via master-failover"
        raise JobFailed(text, "wrong_input")
    if given.get("master_candidate") and not node["master_capable"]:
        text = f"Node {name} is not master capable, cannot make it a master candidate"
        raise JobFailed(text, "wrong_state")


def _pool(rows: list[Row]) -> tuple[int, int]:
    """How many of these nodes are candidates, and how many could be."""
    usable = sum(not (row["offline"] or row["drained"]) and row["master_capable"] for row in rows)
    return sum(bool(row["master_candidate"]) for row in rows), usable


def _lacks_candidate(state: Roles) -> bool:
    """Whether one more node in service should be a candidate."""
    candidates, usable = _pool([*state.rows("node")])
    return bool(candidates < min(usable + 1, state.info["candidate_pool_size"]))


def _enough_candidates(state: Roles, without: str) -> None:
    rows = [row for row in state.rows("node") if row["name"] != without]
    candidates, usable = _pool(rows)
    if candidates < min(usable, state.info["candidate_pool_size"]):
        text = (
            "Not enough master candidates, please pass auto promote option to allow promotion "
            "(--auto-promote or RAPI auto_promote=True)"
        )
        raise JobFailed(text, "wrong_state")
