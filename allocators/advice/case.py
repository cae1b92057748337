"""A question to the engine with everything that can be changed about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.iallocator.request_types import type_of
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import Cluster, Group, Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import (
    Allocate,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Request,
)
from ganeti_steward.core.model.site_rules import Ban, NoPlace, SiteRules

#: What a ban of all nodes is called among the site rules.
NO_PLACE: Final = "no place allowed"
#: The rule that `Only` adds.
ANOTHER_NODE: Final = "another node"


class Only(NamedTuple):
    """One instance may use one node only, in one role."""

    instance: str
    node: str
    role: str


class Case(NamedTuple):
    """A request, the cluster it is about, and under which rules."""

    request: Request
    cluster: Cluster
    options: Options = Options()
    without: frozenset[str] = frozenset()
    """names of site rules that do not apply"""
    only: Only | None = None


class Engine(Protocol):
    """The configured allocators and site rules."""

    def rules(self, request: Request) -> SiteRules:
        """The site rules for a request."""

    def outcome(self, request: Request, cluster: Cluster, context: Context) -> Outcome:
        """The answer to a request; raises PluginError."""


class Trier:
    """Sends questions to the engine for so long."""

    def __init__(self, engine: Engine, limit: float, clock: Callable[[], float]) -> None:
        """``limit``: seconds after which nothing more is tried; ``clock``: seconds."""
        self._engine, self._clock = engine, clock
        self._end = clock() + limit
        self.tried = 0
        """number of questions so far"""
        self.bounded = False
        """whether more would have been tried with more time"""

    def goes_on(self) -> bool:
        """Whether there is any time left for more."""
        if not self.bounded:
            self.bounded = self._clock() >= self._end
        return not self.bounded

    def context(self, case: Case, *, explain: bool = False) -> Context:
        """The context of a case: its options, and the site rules as it has them."""
        rules = _Rules(self._engine.rules(case.request), case)
        return Context(case.options, rules, explain)

    def outcome(self, case: Case, *, explain: bool = False) -> Outcome:
        """The engine's answer; a plugin that fails is a refusal."""
        self.tried += 1
        context = self.context(case, explain=explain)
        try:
            return self._engine.outcome(case.request, case.cluster, context)
        except PluginError as err:
            return Refusal(str(err))

    def succeeds(self, case: Case) -> bool:
        """Whether the request is answered in full; False when no time is left."""
        return self.goes_on() and is_complete(self.outcome(case), case.request)


class _Rules:
    """Site rules as a case has them, each instance's collected once."""

    def __init__(self, rules: SiteRules, case: Case) -> None:
        self._rules, self._case = rules, case
        self._known: dict[str, tuple[Ban | NoPlace, ...]] = {}

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        if cluster is not self._case.cluster:
            return self._bans(cluster, instance)
        if instance.name not in self._known:
            self._known[instance.name] = self._bans(cluster, instance)
        return self._known[instance.name]

    def _bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        without, only = self._case.without, self._case.only
        found = self._rules.bans(cluster, instance)
        if without:
            found = tuple(ban for ban in found if rule_of(ban) not in without)
        if only is None or only.instance != instance.name:
            return found
        reason = f"only {only.node} is looked at"
        others = (
            Ban(node.name, only.role, ANOTHER_NODE, reason)
            for node in cluster.nodes
            if node.name != only.node
        )
        return (*found, *others)

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str, str], float]:
        return self._rules.costs(cluster, instance)


def rule_of(ban: Ban | NoPlace) -> str:
    """The name of the site rule."""
    return NO_PLACE if isinstance(ban, NoPlace) else ban.rule


def is_complete(outcome: Outcome, request: Request) -> bool:
    """Whether every instance of a request has its place."""
    return isinstance(outcome, Answer) and not unplaced(outcome, request)


def unplaced(outcome: Outcome, request: Request) -> tuple[str, ...]:
    """The names of the instances of a request that have no place."""
    if isinstance(outcome, Refusal):
        return names_of(request)
    if not isinstance(request, MultiAllocate | NodeEvacuate | ChangeGroup):
        return ()
    result: Any = outcome.result
    return tuple(one if isinstance(one, str) else one[0] for one in result[1])


def names_of(request: Request) -> tuple[str, ...]:
    """The names of the instances a request is about."""
    return tuple(type_of(request).instances(request))


def instances_of(case: Case) -> list[Instance]:
    """The instances a request is about."""
    request = case.request
    if isinstance(request, Allocate):
        return [request.instance]
    if isinstance(request, MultiAllocate):
        return [item.instance for item in request.items]
    return [case.cluster.instance(name) for name in names_of(request)]


def alone(case: Case, instance: Instance) -> Case:
    """The same question about one instance alone."""
    request, one = case.request, (instance.name,)
    if isinstance(request, MultiAllocate):
        item = next(item for item in request.items if item.instance is instance)
        named = item._replace(group_name=item.group_name or request.group_name)
        return case._replace(request=named)
    if isinstance(request, NodeEvacuate | ChangeGroup):
        return case._replace(request=request._replace(instances=one))
    return case


def with_instance(case: Case, instance: Instance) -> Case:
    """The case with one of its instances changed, whose name stays."""
    request, cluster = case.request, case.cluster
    if isinstance(request, Allocate):
        return case._replace(request=request._replace(instance=instance))
    if isinstance(request, MultiAllocate):
        items = tuple(
            item._replace(instance=instance) if item.instance.name == instance.name else item
            for item in request.items
        )
        return case._replace(request=request._replace(items=items))
    others = (one for one in cluster.instances if one.name != instance.name)
    return case._replace(cluster=cluster.replace(instances=[*others, instance]))


def with_group(case: Case, group: Group) -> Case:
    """The case with one node group changed, whose uuid stays."""
    groups = [group if one.uuid == group.uuid else one for one in case.cluster.groups]
    return case._replace(cluster=case.cluster.replace(groups=groups))


#: Seconds of CPU in which suggestions for one refusal are looked for.
USUAL_LIMIT: Final = 3.0

#: Kinds of suggestions, in the order in which they are shown.
SIZE: Final = "size"
MOVES: Final = "moves"
NODE: Final = "node"
NODE_GROUP: Final = "node-group"
NODE_STATE: Final = "node-state"
REQUEST: Final = "request"
TAG: Final = "tag"
SITE_RULE: Final = "site-rule"
POLICY: Final = "policy"
NETWORK: Final = "network"
OPTION: Final = "option"


class OtherMove(NamedTuple):
    """A move of another instance, one job."""

    instance: str
    before: tuple[str, ...]
    """names of its nodes, primary first"""
    after: tuple[str, ...]
    copied: int
    """MiB of disk that are copied"""
    job: Job


class Suggestion(NamedTuple):
    """A change that was tried: the engine answers the changed request in full."""

    kind: str
    """one of the constants of this module"""
    text: str
    """the change as a sentence"""
    case: Case
    """the changed request, cluster or options"""
    moves: tuple[OtherMove, ...] = ()
    """of other instances, in the order in which they must be made"""
