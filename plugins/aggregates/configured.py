"""Reading the section ``[aggregates]``: the same as tags declare, and what instances request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ganeti_steward.plugins.aggregates.collected import Collected
from ganeti_steward.plugins.aggregates.language.automatic import Ask
from ganeti_steward.plugins.aggregates.language.entitlement import entitled_by
from ganeti_steward.plugins.aggregates.language.expression import (
    ExpressionError,
    Term,
    checked_name,
    checked_prefix,
)
from ganeti_steward.plugins.aggregates.language.soft import Soft, parse_requested
from ganeti_steward.plugins.aggregates.language.tags import (
    FORBIDDEN_PREFIX,
    POOL,
    REQUIRED_PREFIX,
    UNCLAIMABLE,
    UNIT,
    VERSION,
    Fault,
    checked_part,
    printable,
)
from ganeti_steward.plugins.aggregates.language.until import checked_date
from ganeti_steward.plugins.aggregates.membership import CONFIGURATION

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.aggregates.config import Aggregates

_T = TypeVar("_T")

#: Keys that came with version 2 of the tags.
_NEW: Final = ("ask", "entitled_tags", "entitled_instances", "until")


class ConfigReader:
    """Puts what the section declares into a collection."""

    def __init__(self, collected: Collected, cluster: Cluster | None) -> None:
        """Without a cluster there are no notes on things that do not exist."""
        self._into, self._cluster = collected, cluster

    def read(self, config: Aggregates) -> None:
        """All keys of the section."""
        self._into.version = min(self._into.version, config.version)
        for key, prefixes in (
            (FORBIDDEN_PREFIX, config.default_forbidden_prefixes),
            (REQUIRED_PREFIX, config.required_prefixes),
        ):
            self._into.settings[key].update(self._each(f"{key}es", prefixes, checked_prefix))
        names = self._names("unclaimable", config.unclaimable)
        self._into.settings[UNCLAIMABLE].update(names)
        self._read_members(config)
        for instance, values in config.instances.items():
            requests = self._each(f"instances.{instance}", values, self._parsed(config))
            self._into.configured[instance] = tuple(requests)
        if config.version < VERSION:
            self._refuse_new(config)
            return
        self._read_automatic(config)
        self._read_entitled(config)
        for name, date in config.until.items():
            for day in self._each(f"until.{name}", [str(date)], checked_date):
                self._into.ends(name, day)
            self._names("until", [name])

    def _refuse_new(self, config: Aggregates) -> None:
        for field in _NEW:
            if getattr(config, field):
                text = f"is of version {VERSION} of the tags; version = {config.version} is set"
                self._fault(field.replace("_", "-"), "", text)

    def _parsed(self, config: Aggregates) -> Callable[[str], Term | Soft]:
        def parsed(value: str) -> Term | Soft:
            one = parse_requested(value)
            if isinstance(one, Soft) and config.version < VERSION:
                raise ExpressionError(f"is of version {VERSION} of the tags")
            return one

        return parsed

    # -- members

    def _read_members(self, config: Aggregates) -> None:
        for name, given in config.groups.items():
            self._read_group(name, self._names(f"groups.{name}", given))
        for node, given in config.nodes.items():
            checked = self._names(f"nodes.{node}", given)
            if self._is_node("nodes", node):
                self._into.nodes[node] = set(checked)
        for node, units in config.units.items():
            owned = self._owned(f"units.{node}", units, UNIT)
            if self._is_node("units", node):
                self._into.units[node] = owned
        self._into.pools = self._owned("pools", config.pools, POOL)

    def _read_group(self, name: str, names: Sequence[str]) -> None:
        if self._cluster is None:
            return
        found = self._cluster.groups_named(name)
        if not found:
            self._into.notes.append(_unknown("groups", name))
        for at in found:
            uuid = self._cluster.groups[at].uuid
            self._into.groups.setdefault(uuid, set()).update(names)

    def _is_node(self, key: str, name: str) -> bool:
        if self._cluster is None or name in self._cluster.node_index:
            return True
        self._into.notes.append(_unknown(key, name))
        return False

    def _owned(
        self, path: str, given: Mapping[str, Sequence[str]], kind: str
    ) -> dict[str, set[str]]:
        owned: dict[str, set[str]] = {}
        for name, names in given.items():
            self._each(path, [name], lambda one: checked_part(one, kind))
            owned[name] = set(self._names(f"{path}.{name}", names))
        return owned

    # -- who requests what

    def _read_automatic(self, config: Aggregates) -> None:
        for kind, rules in config.ask.items():
            for pattern, given in rules.items():
                values = [given] if isinstance(given, str) else given
                path = f"ask.{kind}.{pattern}"
                requests = tuple(self._each(path, values, parse_requested))
                self._into.automatic.append(Ask(kind, pattern, requests))

    def _read_entitled(self, config: Aggregates) -> None:
        for name, tags in config.entitled_tags.items():
            path = f"entitled-tags.{name}"
            self._into.entitled.update(
                self._each(path, tags, lambda tag, name=name: entitled_by(name, tag=tag))
            )
        for name, instances in config.entitled_instances.items():
            path = f"entitled-instances.{name}"
            self._into.entitled.update(
                self._each(path, instances, lambda one, name=name: entitled_by(name, instance=one))
            )

    # -- faults

    def _names(self, path: str, given: Iterable[str]) -> list[str]:
        return self._each(path, given, checked_name)

    def _each(self, path: str, given: Iterable[str], check: Callable[..., _T]) -> list[_T]:
        """The checked values; the faults of the others are kept."""
        return list(self._checked(path, given, check))

    def _checked(self, path: str, given: Iterable[str], check: Callable[..., _T]) -> Iterator[_T]:
        for value in given:
            try:
                yield check(value)
            except ExpressionError as err:
                self._fault(path, value, str(err))

    def _fault(self, path: str, value: Any, text: str) -> None:
        self._into.faults.append(Fault(CONFIGURATION, f"aggregates.{path}", value, text))


def _unknown(key: str, name: str) -> str:
    shown = printable(name)
    return f"configuration aggregates.{key}.{shown}: the cluster has no {shown}"
