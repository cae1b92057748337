"""From what a search found to an `Explanation` for people."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.placement.info import group_refusal, last_notes
from ganeti_steward.allocators.rules.candidates import Verdicts, secondary_verdicts
from ganeti_steward.allocators.rules.groups import takes_instances
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.model.explanation import Explanation, GroupVerdict, NodeVerdict, Place

if TYPE_CHECKING:
    from ganeti_steward.allocators.placement.placing import GroupTrial, Placement
    from ganeti_steward.allocators.score.ranked_places import RankedPlace
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State


#: How many of the best places are shown with their scores.
SHOWN_PLACES: Final = 5


def explain(placement: Placement) -> Explanation:
    """Everything that was tried for one instance."""
    notes = last_notes(placement.state.frame, placement.demand.instance)
    return Explanation(
        instance=placement.demand.instance.name,
        wanted=wanted(placement.demand),
        chosen=placement.nodes(),
        score_before=Scorer(placement.state, placement.scope).score,
        groups=tuple(_group(placement, trial) for trial in placement.trials),
        notes=tuple(text for text in (placement.fault, *(one[2:-1] for one in notes)) if text),
    )


def wanted(demand: Demand) -> str:
    """What an instance needs, in one line."""
    instance = demand.instance
    return (
        f"{instance.template}, {instance.memory} MiB memory, {instance.vcpus} vcpus, "
        f"{instance.disk_space} MiB disk in {len(instance.disks)} disk(s)"
    )


def _group(placement: Placement, trial: GroupTrial) -> GroupVerdict:
    group = placement.state.frame.cluster.groups[trial.group]
    shown = islice(trial.places.best_first(), SHOWN_PLACES) if trial.places else ()
    if trial is placement.chosen:
        summary = "chosen"
    elif placement.chosen and trial.best and takes_instances(group):
        summary = _not_chosen(placement.chosen, trial, placement)
    else:
        summary = group_refusal(placement.state, placement.demand, trial, placement.keeps)
    return GroupVerdict(
        name=group.name,
        alloc_policy=group.alloc_policy,
        summary=summary,
        nodes=_verdicts(placement, trial),
        places=tuple(_place_shown(placement, place) for place in shown),
    )


def _not_chosen(chosen: GroupTrial, trial: GroupTrial, placement: Placement) -> str:
    """Why a group that has places was not taken."""
    groups = placement.state.frame.cluster.groups
    better, group = groups[chosen.group], groups[trial.group]
    if better.alloc_policy != group.alloc_policy:
        return f"not chosen, {better.name} is {better.alloc_policy}"
    assert chosen.best is not None
    assert trial.best is not None
    found, own = (one.score + placement.cost_of(one) for one in (chosen.best, trial.best))
    digits = 2 if f"{found:.2f}" != f"{own:.2f}" else 8
    if chosen.best.metric or found >= own - TOLERANCE:
        return f"not chosen, {better.name} is not worse"
    return f"not chosen, {better.name} scores better ({found:.{digits}f} against {own:.{digits}f})"


def _place_shown(placement: Placement, place: RankedPlace) -> Place:
    """One place with its score by component and the result of the capacity test."""
    after = placement.state.placed(placement.demand, place.primary, place.secondary)
    scorer = Scorer(after, placement.scope)
    components, costs = scorer.components(), placement.cost_of(place)
    shares = placement.cost_shares(place).items()
    components |= {f"site_costs:{plugin}": cost for plugin, cost in shares if cost}
    stuck = placement.test.newly_stuck(after, place.nodes) if placement.test else []
    return Place(
        nodes=after.frame.node_names(place.nodes),
        score=scorer.score + costs,
        components=components,
        capacity=tuple(f"{one.instance} could no longer leave {one.node}" for one in stuck),
        metric=place.metric,
    )


def _verdicts(placement: Placement, trial: GroupTrial) -> tuple[NodeVerdict, ...]:
    if not trial.verdicts:
        return ()
    first, state = trial.verdicts[0], placement.state
    if len(trial.verdicts) == 1:
        return tuple(_node_verdicts(state, first, trial.members))
    verdicts_shown = []
    if placement.keeps < 0:
        verdicts_shown += _node_verdicts(state, first, trial.members)
    # Secondaries are shown for one primary: the chosen one, or any that fits.
    fitting = np.flatnonzero(first.fits & trial.members).tolist()
    primary = trial.best.primary if trial.best else next(iter(fitting), -1)
    others = trial.members.copy()
    second = trial.verdicts[1]
    if primary >= 0:
        others[primary] = False
        kept = state.peers.row(primary)
        second = secondary_verdicts(
            state, placement.demand, placement.terms, kept, forced=second.forced
        )
    return (*verdicts_shown, *_node_verdicts(state, second, others, primary))


def _node_verdicts(
    state: State, verdicts: Verdicts, nodes: Mask, primary: int = -1
) -> list[NodeVerdict]:
    """The result of the rules for each node in one role."""
    names = state.frame.cluster.nodes
    verdicts_shown = []
    for node in np.flatnonzero(nodes).tolist():
        check = verdicts.check(node)
        rule, text = (check.rule, check.text(node)) if check else ("", "")
        beside = names[primary].name if primary >= 0 else ""
        verdicts_shown.append(NodeVerdict(names[node].name, verdicts.role, rule, text, beside))
    return verdicts_shown
