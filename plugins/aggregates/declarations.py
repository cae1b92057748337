"""Reading who is in which aggregate, and the settings, from tags and the configuration.

Nothing is raised here: all faults are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.core.needed import ROOM_PREFIXES
from ganeti_steward.plugins.aggregates.language import expression, tags
from ganeti_steward.plugins.aggregates.language.limits import Entitled, checked_date, entitled_by
from ganeti_steward.plugins.aggregates.language.requests import Ask, Soft, parse_requested
from ganeti_steward.plugins.aggregates.membership import (
    CONFIGURATION,
    Membership,
    MembershipRules,
    Names,
    ReadingSettings,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.aggregates.config import Aggregates


_T = TypeVar("_T")


def read_rules(cluster: Cluster, config: Aggregates) -> MembershipRules:
    """Read all that is declared, by tags and in the configuration's section."""
    reader = _Reader(config, cluster)
    reader.read_section()
    for tag in cluster.tags:
        reader.read_tag(tags.CLUSTER, "", tag, "")
    for group in cluster.groups:
        for tag in group.tags:
            reader.read_tag(tags.GROUP, group.name, tag, group.uuid)
    for node in cluster.nodes:
        for tag in node.tags:
            reader.read_tag(tags.NODE, node.name, tag, node.name)
    return reader.rules()


def config_faults(config: Aggregates) -> list[tags.Fault]:
    """What is wrong with the configuration's section, whatever the cluster."""
    reader = _Reader(config, None)
    reader.read_section()
    return reader.faults


class _Reader:
    """Everything that was declared so far."""

    def __init__(self, config: Aggregates, cluster: Cluster | None) -> None:
        """Without a cluster there are no notes on things that do not exist."""
        self._config, self._cluster = config, cluster
        self.faults: list[tags.Fault] = []
        self._notes: list[str] = []
        self._groups = defaultdict[str, set[str]](set)
        """uuid -> aggregates"""
        self._nodes = defaultdict[str, set[str]](set)
        self._units = defaultdict[str, dict[str, set[str]]](dict)
        """node -> unit -> aggregates"""
        self._pools: dict[str, set[str]] = {}
        self._settings = defaultdict[str, set[str]](set)
        """key of the tag -> prefixes, or names of aggregates"""
        self._configured: dict[str, tuple[expression.Term | Soft, ...]] = {}
        self._automatic: list[Ask] = []
        self._entitled: set[Entitled] = set()
        self._until: dict[str, str] = {}

    def rules(self) -> MembershipRules:
        """All that was read."""
        settings = ReadingSettings(
            forbidden=tuple(sorted(self._settings[tags.FORBIDDEN_PREFIX])),
            required=tuple(sorted(self._settings[tags.REQUIRED_PREFIX])),
            unclaimable=frozenset(self._settings[tags.UNCLAIMABLE]),
            combine=self._config.combine,
            on_evacuation=self._config.on_evacuation,
        )
        membership = Membership(
            _frozen(self._groups),
            _frozen(self._nodes),
            {node: _frozen(units) for node, units in self._units.items()},
            _frozen(self._pools),
        )
        return MembershipRules(
            membership,
            settings,
            tuple(self.faults),
            tuple(self._notes),
            self._configured,
            tuple(self._automatic),
            tuple(sorted(self._entitled)),
            self._until,
        )

    def _ends(self, name: str, date: str) -> None:
        """An aggregate has a last day; of several the first one counts."""
        self._until[name] = min(date, self._until.get(name, date))

    # -- tags

    def read_tag(self, kind: str, name: str, tag: str, key: str) -> None:
        """One tag; ``key``: what the object is known by."""
        if not tag.startswith(TAG_PREFIX) or tag.startswith(ROOM_PREFIXES):
            return
        try:
            declared = tags.read_tag(kind, tag)
        except expression.ExpressionError as err:
            self.faults.append(tags.Fault(kind, name, tag, str(err)))
            return
        if isinstance(declared, Ask):
            self._automatic.append(declared)
            return
        assert isinstance(declared, tags.Declared)
        word, aggregate, owner = declared
        if word == tags.AGGREGATE:
            (self._groups if kind == tags.GROUP else self._nodes)[key].add(aggregate)
        elif word in (tags.UNIT, tags.POOL):
            # It is there, and in an aggregate unless the name is empty.
            members = self._units[key] if word == tags.UNIT else self._pools
            members.setdefault(owner, set()).update({aggregate} - {""})
        elif word == tags.ENTITLED_TAG:
            self._entitled.add(Entitled(aggregate, tag=owner))
        elif word == tags.ENTITLED_INSTANCE:
            self._entitled.add(Entitled(aggregate, instance=owner))
        elif word == tags.UNTIL:
            self._ends(aggregate, owner)
        elif word != tags.SPREAD:
            self._settings[word].add(aggregate)

    # -- the section

    def read_section(self) -> None:
        """All keys of the section."""
        config = self._config
        for key, prefixes in (
            (tags.FORBIDDEN_PREFIX, config.default_forbidden_prefixes),
            (tags.REQUIRED_PREFIX, config.required_prefixes),
        ):
            self._settings[key].update(self._each(f"{key}es", prefixes, expression.checked_prefix))
        self._settings[tags.UNCLAIMABLE].update(self._names("unclaimable", config.unclaimable))
        self._read_members()
        for instance, values in config.instances.items():
            requests = self._each(f"instances.{instance}", values, parse_requested)
            self._configured[instance] = tuple(requests)
        for kind, rules in config.ask.items():
            for pattern, given in rules.items():
                values = [given] if isinstance(given, str) else given
                requests = self._each(f"ask.{kind}.{pattern}", values, parse_requested)
                self._automatic.append(Ask(kind, pattern, tuple(requests)))
        for key, word, entries in (
            ("entitled-tags", "tag", config.entitled_tags),
            ("entitled-instances", "instance", config.entitled_instances),
        ):
            for name, values in entries.items():
                self._entitled.update(
                    self._each(
                        f"{key}.{name}",
                        values,
                        lambda value, name=name, word=word: entitled_by(name, **{word: value}),
                    )
                )
        for name, date in config.until.items():
            for day in self._each(f"until.{name}", [str(date)], checked_date):
                self._ends(name, day)
            self._names("until", [name])

    def _read_members(self) -> None:
        config, cluster = self._config, self._cluster
        for name, given in config.groups.items():
            names = self._names(f"groups.{name}", given)
            if cluster is None:
                continue
            groups = cluster.groups_named(name)
            if not groups:
                self._is_missing("groups", name)
            for index in groups:
                self._groups[cluster.groups[index].uuid].update(names)
        for node, given in config.nodes.items():
            names = self._names(f"nodes.{node}", given)
            if cluster is None or node in cluster.node_index:
                self._nodes[node] = set(names)
            else:
                self._is_missing("nodes", node)
        for node, units in config.units.items():
            owned = self._owned(f"units.{node}", units, tags.UNIT)
            if cluster is None or node in cluster.node_index:
                self._units[node] = owned
            else:
                self._is_missing("units", node)
        self._pools = self._owned("pools", config.pools, tags.POOL)

    def _is_missing(self, key: str, name: str) -> None:
        shown = tags.printable(name)
        self._notes.append(f"configuration aggregates.{key}.{shown}: the cluster has no {shown}")

    def _owned(
        self, path: str, given: Mapping[str, Sequence[str]], kind: str
    ) -> dict[str, set[str]]:
        owned: dict[str, set[str]] = {}
        for name, names in given.items():
            self._each(path, [name], lambda part: tags.checked_part(part, kind))
            owned[name] = set(self._names(f"{path}.{name}", names))
        return owned

    def _names(self, path: str, given: Iterable[str]) -> list[str]:
        return self._each(path, given, expression.checked_name)

    def _each(self, path: str, given: Iterable[str], check: Callable[..., _T]) -> list[_T]:
        """The checked values; the faults of the others are kept."""
        checked = []
        for value in given:
            try:
                checked.append(check(value))
            except expression.ExpressionError as err:
                place = f"aggregates.{path}"
                self.faults.append(tags.Fault(CONFIGURATION, place, value, str(err)))
        return checked


def _frozen(members: Mapping[str, set[str]]) -> dict[str, Names]:
    return {name: frozenset(names) for name, names in members.items()}
