"""A cluster of luxid's rows that can be changed: what the worlds of tests have in common."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

Row = dict[str, Any]


class Rows:
    """Nothing is known of it beside its configuration: every node answers, every copy is whole."""

    info: Row
    nodes: list[Row]
    instances: list[Row]
    groups: list[Row]
    networks: list[Row]

    def rows(self, what: str) -> list[Row]:
        rows: list[Row] = getattr(self, f"{what}s")
        return rows

    def find(self, kind: str, name: str) -> Row:
        for row in getattr(self, f"{kind}s"):
            if row["name"] == name:
                found: Row = row
                return found
        raise KeyError(name)

    def node(self, name: str) -> Row:
        """One node; raises KeyError."""
        return self.find("node", name)

    def instance(self, name: str) -> Row:
        """One instance; raises KeyError."""
        return self.find("instance", name)

    def changed(self) -> None:
        """The configuration was written."""

    def answers(self, node: str) -> bool:
        return True

    def has_power(self, node: str) -> bool:
        return True

    def free_memory(self, node: str) -> int:
        return self.node(node)["mfree"] or 0

    def runs_on(self, instance: str) -> Set[str]:
        row = self.instance(instance)
        return {row["pnode"]} if row["admin_state"] == "up" else set()

    def whole(self, instance: str) -> Set[str]:
        return {*places(self.instance(instance))}

    def disk_status(self, instance: str, node: str) -> list[Any] | None:
        offline = {one for one in places(self.instance(instance)) if self.node(one)["offline"]}
        return None if node in offline else [None, None, None, None, None, bool(offline), 1]

    def set_roles(self, node: str, **roles: bool) -> None:
        self.node(node).update(roles)
        self.changed()

    def promote(self) -> None:
        """As Ganeti does it, but always in the same order."""
        for row in self.nodes:
            if sum(one["master_candidate"] for one in self.nodes) >= self.pool:
                return
            if row["master_capable"] and not (row["offline"] or row["drained"]):
                row["master_candidate"] = True

    @property
    def pool(self) -> int:
        """How many master candidates there should be."""
        return int(self.info["candidate_pool_size"])

    def set_tags(self, kind: str, name: str, tags: Sequence[str]) -> None:
        kind = "group" if kind == "nodegroup" else kind
        row = self.info if kind == "cluster" else self.find(kind, name)
        row["tags"][:] = tags
        self.changed()

    def set_state(self, instance: str, state: str) -> None:
        self.instance(instance)["admin_state"] = state
        self.changed()

    def place(self, instance: str, nodes: Sequence[str], *, live: bool = False) -> None:
        self.instance(instance).update(pnode=nodes[0], snodes=[*nodes[1:]])
        self.changed()

    def start(self, instance: str) -> None:
        pass

    def stop(self, instance: str) -> None:
        pass

    def renew_copy(self, instance: str, node: str) -> None:
        pass

    def set_power(self, node: str, *, on: bool) -> None:
        pass


def places(row: Row) -> tuple[str, ...]:
    """The nodes of an instance, the primary first."""
    return (row["pnode"], *row["snodes"])
