"""The plugin: which nodes an instance may not use, by aggregates and reservations.

Membership is checked when a node is chosen, by the tags of that moment: an
instance that is on a node already stays there.  A node evacuation does not check the nodes of the
instance itself either: it may fail over to its secondary, which was not chosen now.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import join_faults
from ganeti_steward.core.model.requests import Balance, NodeEvacuate, Relocate
from ganeti_steward.core.model.site_rules import ROLES, Ban, Cost, NoPlace
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import config_faults, read_rules
from ganeti_steward.plugins.aggregates.language.limits import Clock
from ganeti_steward.plugins.aggregates.language.requests import Soft, unknown_everywhere
from ganeti_steward.plugins.aggregates.language.tags import Fault, printable
from ganeti_steward.plugins.aggregates.membership import Membership, MembershipRules, Names
from ganeti_steward.plugins.aggregates.notes import notes
from ganeti_steward.plugins.aggregates.requirements import (
    Requested,
    Requirements,
    read_requirements,
)
from ganeti_steward.plugins.aggregates.verdicts import FAULTY, Evaluator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.requests import Request


#: What a node that does not comply costs where an evacuation only prefers those that do:
#: more than any other difference of scores, and small enough to leave those exact.
RELUCTANCE: Final = 1e5


class Constraint:
    """The plugin of one run: a cluster's tags are read once, equal requirements evaluated once."""

    CONFIG: Final = Aggregates

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._settings = Aggregates()
        self._read: tuple[Cluster, MembershipRules, Evaluator] | None = None
        self._known: dict[tuple[Requirements, str, bool], tuple[Ban, ...]] = {}
        self._costs: dict[tuple[Soft, ...], list[Cost]] = {}
        self._last: tuple[Instance, Requested] | None = None
        """bans and costs of an instance are wanted one after the other"""
        self._unknown: list[str] = []
        """what is not known of any instance, though automatic requests depend on it"""

    def configure(self, settings: Aggregates) -> None:
        """``settings``: the section ``[aggregates]``."""
        self._settings, self._read = settings, None

    @hookimpl
    def steward_check_config(self, config: Config) -> list[str]:
        """What is wrong with the section: path, value and fault."""
        return [
            f"{printable(fault.name)}: {fault.tag!a}: {fault.text}"
            for fault in config_faults(config.section(Aggregates))
        ]

    def _rules(self, cluster: Cluster) -> tuple[MembershipRules, Evaluator]:
        if self._read is None or self._read[0] is not cluster:
            rules = read_rules(cluster, self._settings)
            self._read, self._known = (cluster, rules, Evaluator(rules, cluster)), {}
            self._costs, self._last = {}, None
            self._unknown = unknown_everywhere(rules.automatic, cluster)
        return self._read[1:]

    def _requested(self, rules: MembershipRules, instance: Instance) -> Requested:
        if self._last is None or self._last[0] is not instance:
            self._last = instance, read_requirements(rules, instance)
        return self._last[1]

    @hookimpl
    def steward_constrain(
        self, request: Request, cluster: Cluster, instance: Instance
    ) -> tuple[Ban | NoPlace, ...]:
        """What is forbidden to the instance."""
        rules, evaluator = self._rules(cluster)
        requested = self._requested(rules, instance)
        everything = bool(self._unknown) and isinstance(request, Balance)
        wrong = (
            _no_place(rules.closing(), everything=True),
            _no_place(requested.faults, everything=everything),
        )
        if any(wrong):
            return tuple(one for one in wrong if one)
        lenient = self._lenient(request, cluster)
        bans = self._bans(evaluator, requested.requirements, instance.template, lenient=lenient)
        if isinstance(request, NodeEvacuate) or _leaving(request):
            return tuple(ban for ban in bans if ban.node not in instance.nodes)
        return bans

    def _bans(
        self, evaluator: Evaluator, requirements: Requirements, template: str, *, lenient: bool
    ) -> tuple[Ban, ...]:
        """The same value for all instances with the same requirements."""
        bans = self._known.get((requirements, template, lenient))
        if bans is None:
            bans = tuple(
                Ban(node.name, role, reason.rule, reason.text)
                for node, role, reason in evaluator.all(requirements, template)
                if not lenient or reason.rule == FAULTY
            )
            self._known[requirements, template, lenient] = bans
        return bans

    @hookimpl
    def steward_weigh(self, request: Request, cluster: Cluster, instance: Instance) -> list[Cost]:
        """What nodes cost that the instance should rather not be on.

        Where an evacuation may use nodes that do not comply, those, too; and where misplaced
        instances are to be moved, the nodes they are misplaced on.
        """
        rules, evaluator = self._rules(cluster)
        requested = self._requested(rules, instance)
        costs = self._soft_costs(rules, cluster, requested.soft) if requested.soft else []
        leaving = _leaving(request)
        if not leaving and not self._lenient(request, cluster):
            return costs
        return [
            *costs,
            *(
                Cost(node.name, role, RELUCTANCE)
                for node, role, _ in evaluator.all(requested.requirements, instance.template)
                if not leaving or node.name in instance.nodes
            ),
        ]

    def _soft_costs(
        self, rules: MembershipRules, cluster: Cluster, soft: tuple[Soft, ...]
    ) -> list[Cost]:
        """The same value for all instances with the same soft requests."""
        if soft not in self._costs:
            self._costs[soft] = list(soft_costs(rules.membership, cluster, soft))
        return self._costs[soft]

    def _lenient(self, request: Request, cluster: Cluster) -> bool:
        """Whether the request empties a node and ``on-evacuation`` is ``prefer``."""
        if self._settings.on_evacuation != "prefer":
            return False
        if isinstance(request, Relocate):
            left = (cluster.node_index.get(name) for name in request.relocate_from)
            return any(at is not None and not cluster.nodes[at].usable for at in left)
        return isinstance(request, NodeEvacuate)

    @hookimpl
    def steward_annotate(self, request: Request, cluster: Cluster, outcome: Outcome) -> list[str]:
        """What an administrator should know in addition to the answer."""
        rules, evaluator = self._rules(cluster)
        return list(notes(request, cluster, outcome, rules, evaluator, self._clock))


def _leaving(request: Request) -> bool:
    """Whether misplaced instances are to be moved.

    The nodes they are on cost then, instead of being banned: on its way off its primary an
    instance has it as secondary.
    """
    return isinstance(request, Balance) and request.fix


def _no_place(faults: Sequence[Fault], *, everything: bool = False) -> NoPlace | None:
    if not faults:
        return None
    return NoPlace(join_faults([fault.sentence for fault in faults]), everything)


_NONE: Final[Names] = frozenset()


def soft_costs(membership: Membership, cluster: Cluster, soft: Sequence[Soft]) -> Iterator[Cost]:
    """The cost of each node in each role, where there is any."""
    for role in ROLES:
        own = [one for one in soft if one.term.role in ("", role)]
        for node in cluster.nodes if own else ():
            mine = membership.nodes.get(node.name, _NONE)
            around = membership.groups.get(node.group, _NONE)
            cost = sum(one.cost(mine, around) for one in own)
            if cost:
                yield Cost(node.name, role, cost)
