"""Suggestions as plain values: found in a child process where site plugins are configured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ganeti_steward.allocators.advice.case import Case, Suggestion, Trier
from ganeti_steward.allocators.jobs.job_sets import commands
from ganeti_steward.allocators.state.names import Names
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import COMMAND_PREFIX, PluginError, StewardError
from ganeti_steward.core.hooks.calls import PluginRules, call
from ganeti_steward.core.hooks.isolation import isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.dispatch import reserved
from ganeti_steward.core.iallocator.request_types import outcome_fault
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.requests import (
    HOOKS,
    TYPE_NAMES,
    Allocate,
    Balance,
    Capacity,
    Request,
)

if TYPE_CHECKING:
    from ganeti_steward.allocators.advice.advise import Advice, NotThere
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.site_rules import SiteRules


@dataclass(frozen=True, slots=True)
class ProposedMove:
    """One move of another instance that makes room."""

    instance: str
    before: tuple[str, ...]
    """its nodes, primary first"""
    after: tuple[str, ...]
    copied: int
    """MiB of disk that are copied"""
    commands: tuple[str, ...]
    """lines for a shell on the master"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change after which a refused request succeeds; it was tried."""

    kind: str
    text: str
    moves: tuple[ProposedMove, ...] = ()
    nodes: tuple[str, ...] = ()
    """where a new instance goes then, primary first; empty for other requests"""


@dataclass(frozen=True, slots=True)
class Proposals:
    """The changes found for one refusal."""

    found: tuple[Proposal, ...]
    tried: int
    """number of changes that were tried"""
    bounded: bool
    """whether time ran out before everything was tried"""


@dataclass(frozen=True, slots=True)
class PlaceObstacle:
    """The first thing that keeps an instance from one node in one role."""

    instance: str
    node: str
    role: str
    rule: str
    """empty where the node would do"""
    reason: str
    proposals: Proposals | None = None
    """what would remove it; None where nothing has to be removed"""


class Trials:
    """The configured allocators and site rules."""

    def __init__(self, config: Config) -> None:
        """Load the plugins; raises PluginError."""
        self._config: Final = config
        self._plugins: Final = Plugins(config)

    def members(self, request: Request) -> tuple[str, ...]:
        """The allocators that answer; empty where only programs are configured."""
        chain = self._config.chain(TYPE_NAMES[type(request)])
        return tuple(name for name in chain if not name.startswith(COMMAND_PREFIX))

    def rules(self, request: Request) -> SiteRules:
        """The site rules for a request."""
        return PluginRules(self._plugins, self._config, request)

    def outcome(self, request: Request, cluster: Cluster, context: Context) -> Outcome:
        """The first full answer, else the last outcome; raises PluginError."""
        last: Outcome = Refusal("no allocator takes this request")
        for name in self.members(request):
            hook = HOOKS[TYPE_NAMES[type(request)]]
            implementation = self._plugins.implementation(name, hook)
            limit = self._config.allocators.time_limit
            found = call(implementation, limit, request=request, cluster=cluster, context=context)
            if found is None:
                continue
            fault = outcome_fault(found, request, cluster)
            if fault or not isinstance(found, Answer | Refusal):
                raise PluginError(name, fault)
            if isinstance(found, Answer):
                return found
            last = found
        return last


# The searches are imported where they begin: the help of a command does without the engine.

_T = TypeVar("_T")


def proposals(case: Case, config: Config, limit: float) -> Proposals | None:
    """What would make a refused request succeed; None where nothing can be tried.

    ``limit``: seconds of CPU.  Raises PluginError.
    """
    if limit <= 0 or isinstance(case.request, Balance | Capacity):
        return None
    from ganeti_steward.allocators.advice.advise import advise

    case = _reserving(case, config)
    return _tried(
        case,
        config,
        Proposals,
        lambda trials: _proposals(case, advise(case, trials, limit), trials),
    )


def room_made(case: Case, config: Config, limit: float) -> Proposals | None:
    """The moves of other instances that make room; None where nothing can be tried."""

    from ganeti_steward.allocators.advice.advise import Advice
    from ganeti_steward.allocators.advice.make_room import make_room

    case = _reserving(case, config)

    def search(trials: Trials) -> Proposals:
        trier = Trier(trials, limit, process_time)
        found = make_room(case, trier)
        advice = Advice((found,) if found else (), trier.tried, trier.bounded)
        return _proposals(case, advice, trials)

    return _tried(case, config, Proposals, search)


def obstacles(case: Case, node: str, config: Config, limit: float) -> list[PlaceObstacle] | None:
    """What keeps the instances of a request from one node; raises StewardError."""
    from ganeti_steward.allocators.advice.advise import why_not

    names = Names(case.cluster)
    found = names.nodes([node])
    names.check()
    (full,) = found
    if isinstance(case.request, Balance | Capacity):
        raise StewardError("--why-not: the request is about no single instance")
    case = _reserving(case, config)
    return _tried(
        case,
        config,
        list[PlaceObstacle],
        lambda trials: [
            _shown(case, full, one, trials) for one in why_not(case, full, trials, limit)
        ],
    )


def _reserving(case: Case, config: Config) -> Case:
    """The case with the configured reserves of its cluster."""
    return case._replace(cluster=reserved(case.cluster, config)[0])


def _tried(case: Case, config: Config, kind: Any, work: Callable[[Trials], _T]) -> _T | None:
    """Some work with the configured allocators, beside their plugins; raises PluginError.

    ``kind``: the type of its result.
    """

    def all_of_it() -> _T | None:
        trials = Trials(config)
        return work(trials) if trials.members(case.request) else None

    return isolated(config.plugins.load, kind | None, all_of_it)


def _shown(case: Case, node: str, one: NotThere, trials: Trials) -> PlaceObstacle:
    found = None if one.advice is None else _proposals(case, one.advice, trials)
    return PlaceObstacle(one.instance, node, one.role, one.rule, one.reason, found)


def _proposals(case: Case, advice: Advice, trials: Trials) -> Proposals:
    found = tuple(_proposal(one, trials) for one in advice.suggestions)
    return Proposals(found, advice.tried, advice.bounded)


def _proposal(suggestion: Suggestion, trials: Trials) -> Proposal:
    nodes: tuple[str, ...] = ()
    if suggestion.moves and isinstance(suggestion.case.request, Allocate):
        trier = Trier(trials, math.inf, lambda: 0.0)
        outcome = trier.outcome(suggestion.case)
        result: Any = outcome.result if isinstance(outcome, Answer) else ()
        nodes = tuple(result)
    moves = tuple(
        ProposedMove(one.instance, one.before, one.after, one.copied, tuple(commands(one.job)))
        for one in suggestion.moves
    )
    return Proposal(suggestion.kind, suggestion.text, moves, nodes)
