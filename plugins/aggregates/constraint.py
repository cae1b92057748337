"""The plugin: which nodes an instance may not use, by aggregates and reservations.

Membership is judged when a node is chosen, by the tags of that moment (aggregates 6.6): who
is somewhere already stays.  A node evacuation does not judge the instance's own nodes either:
it may fail over to its secondary, which was not chosen now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import join_faults
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.requests import (
    Allocate,
    AllocateSecondary,
    Balance,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
)
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY, Ban, Cost, NoPlace
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.evaluator import FAULTY, Judge
from ganeti_steward.plugins.aggregates.membership import Rules, config_faults, read_rules
from ganeti_steward.plugins.aggregates.requirements import Wishes, closing_faults, read_wishes
from ganeti_steward.plugins.aggregates.roles import STORAGE
from ganeti_steward.plugins.aggregates.tags import GROUP, NODE, printable

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node
    from ganeti_steward.core.model.requests import Request

#: What a node that does not comply costs where an evacuation only prefers those that do:
#: more than any other difference of scores, and small enough to leave those exact.
RELUCTANCE: Final = 1e5

_ROLES: Final = (PRIMARY, SECONDARY)


def plugin(config: Config, request: Request | None) -> Constraint:
    """The plugin for one request."""
    return Constraint(config.section(Aggregates), request)


def faults(config: Config) -> list[str]:
    """What is wrong with the configuration's section: path, value and fault."""
    found = config_faults(config.section(Aggregates))
    return [f"{printable(fault.name)}: {fault.tag!a}: {fault.text}" for fault in found]


class Constraint:
    """Asked once per instance; a cluster is read once."""

    def __init__(self, settings: Aggregates, request: Request | None) -> None:
        self._settings, self._request = settings, request
        self._read: tuple[Cluster, Rules, Judge] | None = None
        self._told: dict[tuple[Wishes, str], tuple[Ban, ...]] = {}

    def _rules(self, cluster: Cluster) -> tuple[Rules, Judge]:
        if self._read is None or self._read[0] is not cluster:
            rules = read_rules(cluster, self._settings)
            self._read, self._told = (cluster, rules, Judge(rules, cluster)), {}
        return self._read[1:]

    @hookimpl
    def steward_constrain(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        """What is forbidden to the instance."""
        rules, judge = self._rules(cluster)
        asked = read_wishes(rules, instance)
        wrong = closing_faults(rules, asked)
        if wrong:
            return (NoPlace(join_faults([fault.sentence for fault in wrong])),)
        bans = self._bans(cluster, judge, asked.wishes, instance.template)
        if isinstance(self._request, NodeEvacuate):
            return tuple(ban for ban in bans if ban.node not in instance.nodes)
        return bans

    def _bans(
        self, cluster: Cluster, judge: Judge, wishes: Wishes, template: str
    ) -> tuple[Ban, ...]:
        """The same for all that ask the same."""
        bans = self._told.get((wishes, template))
        if bans is None:
            lenient = self._lenient(cluster)
            bans = tuple(
                Ban(node.name, role, reason.rule, reason.text)
                for node, role, reason in judge.all(wishes, template)
                if not lenient or reason.rule == FAULTY
            )
            self._told[wishes, template] = bans
        return bans

    @hookimpl
    def steward_weigh(self, cluster: Cluster, instance: Instance) -> list[Cost]:
        """Where an evacuation may use nodes that do not comply: how unwelcome they are."""
        if not self._lenient(cluster):
            return []
        rules, judge = self._rules(cluster)
        wishes = read_wishes(rules, instance).wishes
        return [
            Cost(node.name, role, RELUCTANCE)
            for node, role, _ in judge.all(wishes, instance.template)
        ]

    def _lenient(self, cluster: Cluster) -> bool:
        """Whether the request empties a node and the site prefers that to strictness."""
        if self._settings.on_evacuation != "prefer":
            return False
        if isinstance(self._request, Relocate):
            left = (cluster.node_index.get(name) for name in self._request.relocate_from)
            return any(at is not None and not cluster.nodes[at].usable for at in left)
        return isinstance(self._request, NodeEvacuate)

    # -- notes

    def notes(self, cluster: Cluster, outcome: Outcome) -> list[str]:
        """What an administrator should know besides the answer."""
        rules, _ = self._rules(cluster)
        closed = [fault.sentence for fault in rules.faults if fault.kind in (GROUP, NODE)]
        found = [f"closed: {join_faults(closed)}"] if closed else []
        found += rules.notes
        placed: list[tuple[Instance, list[str]]] = []
        if isinstance(outcome, Answer) and self._request is not None:
            placed += _placed(self._request, outcome.result, cluster)
        if placed and (closing := rules.closing()):
            # Only an allocator that does not know the rules answers so.
            text = join_faults([fault.sentence for fault in closing])
            found.append(f"placed against the rules, which place nothing: {text}")
        for instance, names in placed:
            found += self._notes_on(cluster, instance, names)
        return found

    def _notes_on(self, cluster: Cluster, instance: Instance, names: list[str]) -> Iterator[str]:
        """Roles it does not have, and nodes it would not be given by the rules."""
        rules, judge = self._rules(cluster)
        asked = read_wishes(rules, instance)
        for fault in asked.faults:
            yield f"{instance.name} is placed against the rules: {fault.sentence}"
        wishes = asked.wishes
        for role, _ in wishes.roles:
            if (role == SECONDARY and len(names) < 2) or (
                role == STORAGE and instance.template == "diskless"
            ):
                yield f"{instance.name} has no {role}; what its tags ask of one is ignored"
        for name, role in zip(names, _ROLES, strict=False):
            node = cluster.nodes[cluster.node_index[name]]
            reason = judge.node(wishes, instance.template, node, role)
            if reason is not None:
                yield _against(instance, node, role, reason.text)


def _against(instance: Instance, node: Node, role: str, text: str) -> str:
    """A node that does not comply; it was not chosen now where the instance is there."""
    verb = "stays" if node.name in instance.nodes else "is placed"
    return f"{instance.name} {verb} on {node.name} as {role}, against the rules: {text}"


def _placed(
    request: Request, result: Any, cluster: Cluster
) -> Iterator[tuple[Instance, list[str]]]:
    """The instances of an answer with their nodes then, primary first."""
    if isinstance(request, Allocate):
        yield request.instance, list(result)
    elif isinstance(request, MultiAllocate):
        wanted = {item.instance.name: item.instance for item in request.items}
        yield from ((wanted[name], list(nodes)) for name, nodes in result[0])
    elif isinstance(request, Relocate | AllocateSecondary):
        instance = cluster.instances[cluster.instance_index[request.name]]
        new = [result] if isinstance(result, str) else list(result)
        stays = isinstance(request, AllocateSecondary) or len(instance.nodes) > 1
        yield instance, [*instance.nodes[:1], *new] if stays else new
    elif isinstance(request, NodeEvacuate | ChangeGroup | Balance):
        for name, _, nodes in result[0]:
            yield cluster.instances[cluster.instance_index[name]], list(nodes)
