"""Reading who is in which aggregate, and the settings, from tags and the configuration.

Nothing is raised here: all faults are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.expression import (
    ExpressionError,
    Term,
    checked_name,
    checked_prefix,
    parse_text,
)
from ganeti_steward.plugins.aggregates.membership import (
    CONFIGURATION,
    Membership,
    Names,
    Rules,
    Settings,
)
from ganeti_steward.plugins.aggregates.roles import checked_role
from ganeti_steward.plugins.aggregates.tags import (
    AGGREGATE,
    CLUSTER,
    FORBIDDEN_PREFIX,
    GROUP,
    NODE,
    POOL,
    REQUIRED_PREFIX,
    UNCLAIMABLE,
    UNIT,
    Declared,
    Fault,
    checked_part,
    printable,
    read_tag,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.aggregates.config import Aggregates


def read_rules(cluster: Cluster, config: Aggregates) -> Rules:
    """Read all that is declared, by tags and in the configuration's section."""
    reader = _Reader(cluster)
    reader.read_config(config)
    for tag in _ours(cluster.tags):
        reader.declare(CLUSTER, "", tag, None)
    for group in cluster.groups:
        for tag in _ours(group.tags):
            reader.declare(GROUP, group.name, tag, group.uuid)
    for node in cluster.nodes:
        for tag in _ours(node.tags):
            reader.declare(NODE, node.name, tag, node.name)
    return reader.rules(config)


def config_faults(config: Aggregates) -> list[Fault]:
    """What is wrong with the configuration's section, whatever the cluster."""
    reader = _Reader(None)
    reader.read_config(config)
    return reader.faults


def _ours(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if tag.startswith(TAG_PREFIX)]


class _Reader:
    """Collects what is declared."""

    def __init__(self, cluster: Cluster | None) -> None:
        """Without a cluster there are no notes on things that do not exist."""
        self._cluster = cluster
        self.faults: list[Fault] = []
        self._notes: list[str] = []
        self._groups: dict[str, set[str]] = {}
        self._nodes: dict[str, set[str]] = {}
        self._units: dict[str, dict[str, set[str]]] = {}
        self._pools: dict[str, set[str]] = {}
        self._settings: dict[str, set[str]] = {
            FORBIDDEN_PREFIX: set(),
            REQUIRED_PREFIX: set(),
            UNCLAIMABLE: set(),
        }
        self._requirements: dict[str, tuple[Term, ...]] = {}

    def rules(self, config: Aggregates) -> Rules:
        """All that was read."""
        settings = Settings(
            forbidden=tuple(sorted(self._settings[FORBIDDEN_PREFIX])),
            required=tuple(sorted(self._settings[REQUIRED_PREFIX])),
            unclaimable=frozenset(self._settings[UNCLAIMABLE]),
            combine=config.combine,
            on_evacuation=config.on_evacuation,
        )
        membership = Membership(
            _frozen(self._groups),
            _frozen(self._nodes),
            {node: _frozen(units) for node, units in self._units.items()},
            _frozen(self._pools),
        )
        return Rules(
            membership, settings, tuple(self.faults), tuple(self._notes), self._requirements
        )

    # -- tags

    def declare(self, kind: str, name: str, tag: str, key: str | None) -> None:
        """One tag; ``key``: what the object is known by."""
        try:
            declared = read_tag(kind, tag)
        except ExpressionError as err:
            self.faults.append(Fault(kind, name, tag, str(err)))
            return
        assert isinstance(declared, Declared)
        if declared.key == AGGREGATE:
            members = self._groups if kind == GROUP else self._nodes
            members.setdefault(key or "", set()).add(declared.name)
        elif declared.key == UNIT:
            units = self._units.setdefault(key or "", {})
            units.setdefault(declared.owner, set()).add(declared.name)
        elif declared.key == POOL:
            self._pools.setdefault(declared.owner, set()).add(declared.name)
        else:
            self._settings[declared.key].add(declared.name)

    # -- the configuration

    def read_config(self, config: Aggregates) -> None:
        """The section ``[aggregates]``."""
        for key, prefixes in (
            (FORBIDDEN_PREFIX, config.default_forbidden_prefixes),
            (REQUIRED_PREFIX, config.required_prefixes),
        ):
            self._settings[key].update(self._checked(f"{key}es", prefixes, prefix=True))
        names = self._checked("unclaimable", config.unclaimable)
        self._settings[UNCLAIMABLE].update(names)
        self._read_groups(config.groups)
        for node, given in config.nodes.items():
            checked = self._checked(f"nodes.{node}", given)
            if self._is_node("nodes", node):
                self._nodes[node] = set(checked)
        for node, units in config.units.items():
            owned = self._owned(f"units.{node}", units, UNIT)
            if self._is_node("units", node):
                self._units[node] = owned
        self._pools = self._owned("pools", config.pools, POOL)
        for instance, values in config.instances.items():
            self._requirements[instance] = tuple(self._terms(f"instances.{instance}", values))

    def _read_groups(self, groups: Mapping[str, Sequence[str]]) -> None:
        for name, given in groups.items():
            names = self._checked(f"groups.{name}", given)
            if self._cluster is None:
                continue
            found = self._cluster.groups_named(name)
            if not found:
                self._notes.append(_unknown("groups", name))
            for at in found:
                uuid = self._cluster.groups[at].uuid
                self._groups.setdefault(uuid, set()).update(names)

    def _is_node(self, key: str, name: str) -> bool:
        if self._cluster is None or name in self._cluster.node_index:
            return True
        self._notes.append(_unknown(key, name))
        return False

    def _owned(
        self, path: str, given: Mapping[str, Sequence[str]], kind: str
    ) -> dict[str, set[str]]:
        owned: dict[str, set[str]] = {}
        for name, names in given.items():
            try:
                checked_part(name, kind)
            except ExpressionError as err:
                self._config_fault(path, name, err)
            owned[name] = set(self._checked(f"{path}.{name}", names))
        return owned

    def _checked(self, path: str, given: Iterable[str], *, prefix: bool = False) -> list[str]:
        """The good ones; the faults of the others are kept."""
        good = []
        for name in given:
            try:
                good.append(checked_prefix(name) if prefix else checked_name(name))
            except ExpressionError as err:
                self._config_fault(path, name, err)
        return good

    def _terms(self, path: str, values: Iterable[str]) -> Iterator[Term]:
        for value in values:
            try:
                yield checked_role(parse_text(value))
            except ExpressionError as err:
                self._config_fault(path, value, err)

    def _config_fault(self, path: str, value: str, err: ExpressionError) -> None:
        self.faults.append(Fault(CONFIGURATION, f"aggregates.{path}", value, str(err)))


def _unknown(key: str, name: str) -> str:
    shown = printable(name)
    return f"configuration aggregates.{key}.{shown}: the cluster has no {shown}"


def _frozen(members: Mapping[str, set[str]]) -> dict[str, Names]:
    return {name: frozenset(names) for name, names in members.items() if names}
