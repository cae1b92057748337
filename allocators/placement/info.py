"""Sentences about what was chosen, or why nothing was: the ``info`` of an answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.rules.checks import DISK_REPORTED, FAILURES, PASSING, RESERVED
from ganeti_steward.core.errors import few
from ganeti_steward.core.model.cluster import SILENT, Instance
from ganeti_steward.core.model.site_rules import SECONDARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.placement.placing import GroupTrial, Placement
    from ganeti_steward.allocators.rules.candidates import Verdicts
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.frame import Demand, Frame
    from ganeti_steward.allocators.state.state import State


#: Rules that refuse a node because figures of it are missing.
_NOT_REPORTED: Final = (SILENT, DISK_REPORTED)

#: Rules on what stays free, if anything does: the numbers of one node are shown.
_IN_RESERVE: Final = ("memory reserve", "disk reserve", "N+1 and reserve", "host reserve")

#: Rules whose nodes are named in a refusal: people wait for them.
_WAITED_FOR: Final = (RESERVED, PASSING)

#: How many of them are named; the others are only counted.
_NAMED: Final = 5

#: Rules whose name alone does not say what runs out.
_SENTENCES: Final = {"capacity": "another node could no longer be emptied"}


def success_text(placement: Placement) -> str:
    """What was selected, in hail's wording (allocation 10)."""
    assert placement.chosen is not None
    groups = placement.state.frame.cluster.groups
    entries = [_group_entry(placement, trial) for trial in placement.trials]
    named = len(placement.trials) == 1 and len(groups) > 1
    prefix = "" if named else f"Selected group: {groups[placement.chosen.group].name}, "
    return prefix + ", ".join(entries) + _note(placement)


def refusal_text(placement: Placement) -> str:
    """Why there is no place: how many nodes fit, and what refuses the others."""
    return refusal_reasons(placement) + _note(placement)


def refusal_reasons(placement: Placement) -> str:
    """The same without the notes on nodes that are used last."""
    if placement.fault:
        return placement.fault
    groups = placement.state.frame.cluster.groups
    if not placement.trials:
        return "the cluster has no node group"
    texts = [
        (groups[t.group].name, group_refusal(placement.state, placement.demand, t, placement.keeps))
        for t in placement.trials
    ]
    if len(texts) == 1:
        return texts[0][1]
    return "; ".join(f"group {name}: {text}" for name, text in texts)


def _note(placement: Placement) -> str:
    return disk_note(placement.state.frame, placement.demand.instance)


def disk_note(frame: Frame, instance: Instance) -> str:
    """Notes on nodes that are used last: suspect ones, and where disk space was not checked."""
    return "".join(last_notes(frame, instance))


def last_notes(frame: Frame, instance: Instance) -> tuple[str, ...]:
    """The same, each by itself; empty for what there is nothing to say about."""
    return usual_note(frame, instance), _pools_note(frame, instance), _suspect_note(frame)


def last_note(frame: Frame, instance: Instance) -> str:
    """The same without the cluster's volume group."""
    return _pools_note(frame, instance) + _suspect_note(frame)


def _suspect_note(frame: Frame) -> str:
    """Which nodes are suspect, and why; those that take nothing left out."""
    nodes = [frame.cluster.nodes[at] for at in np.flatnonzero(frame.suspect & frame.usable)]
    found = [f"{node.name}, which {node.suspect}" for node in nodes]
    return f" (used last: {few(found, _NAMED, '; ')})" if found else ""


def _pools_note(frame: Frame, instance: Instance) -> str:
    """A note when the free space of volume groups apart from the cluster's is not known."""
    unknown = np.flatnonzero(frame.pools_unknown & frame.usable).tolist()
    if not instance.elsewhere or not unknown:
        return ""
    groups = f"volume group {listed(sorted(instance.elsewhere))}"
    if len(unknown) == np.count_nonzero(frame.usable):
        return f" (disk space in {groups} was not checked: it is not known on any node)"
    return f" ({listed(frame.node_names(unknown))} used last: free space of {groups} is not known)"


def usual_note(frame: Frame, instance: Instance) -> str:
    """The same for the cluster's own."""
    if not any(i.local for i in (instance, *frame.cluster.instances)):
        return ""
    if not frame.disk_known:
        return " (disk space for drbd and plain was not checked: the request has no figures on it)"
    doubtful = frame.doubtful_disks
    if not doubtful:
        return ""
    return f" ({listed(doubtful)} used last: less disk in use than instances have)"


def _group_entry(placement: Placement, trial: GroupTrial) -> str:
    state = placement.state
    group = state.frame.cluster.groups[trial.group]
    if trial.reason:
        name = placement.demand.instance.name
        return f"group {group.name} {trial.reason} required by {name}"
    if trial.best is None:
        found = group_refusal(state, placement.demand, trial, placement.keeps)
        return f"Group {group.name} ({group.alloc_policy}): No valid allocation solutions, {found}"
    chosen = "/".join(state.frame.node_names(trial.best.nodes))
    failures = count_failures(placement, trial)
    classes = ", ".join(f"{kind}: {failures[kind]}" for kind in FAILURES if failures[kind])
    assert trial.places is not None
    return (
        f"Group {group.name} ({group.alloc_policy}): score: {_score(trial)}, "
        f"successes {trial.places.count - trial.failed}, failures {failures.total()} "
        f"({classes}) for node(s) {chosen}"
    )


def _score(trial: GroupTrial) -> str:
    assert trial.best is not None
    if trial.best.metric:
        *lost, disk = trial.best.metric
        return f"([{','.join(map(str, lost))}],{disk})"
    return f"{trial.best.score:.8f}"


def group_refusal(state: State, demand: Demand, trial: GroupTrial, keeps: int = -1) -> str:
    """Why one group has no place (or may not be used although it has one).

    ``keeps``: the primary that stays where only a secondary is searched for, -1 without.
    """
    group = state.frame.cluster.groups[trial.group]
    if trial.reason:
        return trial.reason
    if trial.best is not None:
        return f"the group is {group.alloc_policy}"
    total = int(trial.members.sum())
    if len(trial.verdicts) == 1:
        return f"0/{total} nodes fit: {count_reasons(state, demand, trial, trial.verdicts[0])}"
    first, second = trial.verdicts
    fits = int((first.fits & trial.members).sum())
    if keeps >= 0:
        return _kept_refusal(state, demand, trial, keeps)
    against = count_reasons(state, demand, trial, first)
    if not fits:
        return f"0/{total} nodes fit as primary: {against}"
    others = f" ({against})" if fits < total else ""
    primary = state.frame.cluster.nodes[int(np.flatnonzero(first.fits & trial.members)[0])].name
    more = f" or {fits - 1} more" if fits > 1 else ""
    return (
        f"{fits}/{total} nodes fit as primary{others}, "
        f"no secondary goes with {primary}{more}: {count_reasons(state, demand, trial, second)}"
    )


def _kept_refusal(state: State, demand: Demand, trial: GroupTrial, keeps: int) -> str:
    """The same where the primary is given and only the secondary is looked for."""
    primary, second = trial.verdicts
    check = primary.check(keeps)
    name = state.frame.cluster.nodes[keeps].name
    if check is not None:
        return f"its primary {name} cannot keep it: {check.text(keeps)}"
    others = trial.members.copy()
    others[keeps] = False
    trial = trial._replace(members=others)
    reasons = count_reasons(state, demand, trial, second)
    return f"beside its primary {name} 0/{int(others.sum())} nodes fit: {reasons}"


def count_reasons(state: State, demand: Demand, trial: GroupTrial, verdicts: Verdicts) -> str:
    """Reasons with how many nodes they hold for, the most frequent first."""
    counted: Counter[str] = Counter()
    details: dict[str, str] = {}
    named: dict[str, list[str]] = {}
    nodes, reserved = state.frame.cluster.nodes, state.frame.reserves is not None
    for node in np.flatnonzero(trial.members & ~verdicts.fits).tolist():
        check = verdicts.check(node)
        assert check is not None
        counted[check.rule] += 1
        if check.rule == "instance policy":
            details.setdefault(check.rule, f" ({check.text(node)})")
        elif check.rule in _NOT_REPORTED:
            details.setdefault(check.rule, f" (e.g. {nodes[node].name} {state.frame.lack(node)})")
        elif reserved and check.rule in _IN_RESERVE:
            details.setdefault(check.rule, f" (e.g. {nodes[node].name} {check.text(node)})")
        elif check.rule in _WAITED_FOR:
            named.setdefault(check.rule, []).append(nodes[node].name)
    details |= {rule: f" ({listed(names)})" for rule, names in named.items()}
    details |= _largest(demand, trial.members, verdicts)
    parts = [
        f"{number} {rule}{details.get(rule, '')}"
        for rule, number in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]
    left = trial.members & verdicts.fits
    refused = trial.stuck if left.any() else []
    if refused:
        one = refused[0]
        stuck = f"{one.instance} could no longer leave {one.node} if that had to be emptied"
        parts.append(f"{int(left.sum())} capacity (e.g. {stuck})")
    elif left.any() and verdicts.role == SECONDARY:
        parts += _count_pairs(trial, left)
    return ", ".join(parts) or "no nodes"


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return few(names, _NAMED)


def _count_pairs(trial: GroupTrial, secondaries: Mask) -> list[str]:
    """Secondaries nothing speaks against but the primaries they would have."""
    first = trial.verdicts[0].fits & trial.members
    alone = int((secondaries & (int(first.sum()) - first.astype(np.int64) == 0)).sum())
    rest = int(secondaries.sum()) - alone
    texts = ((alone, "the primary itself"), (rest, "N+1 with memory kept for that primary already"))
    return [f"{number} {text}" for number, text in texts if number]


def _largest(demand: Demand, members: Mask, verdicts: Verdicts) -> dict[str, str]:
    """For lack of memory or disk: the most that one of these nodes has, and what is needed."""
    found: dict[str, tuple[int, str]] = {}
    for at, check in enumerate(verdicts.checks):
        nodes = members & (verdicts.verdict == 1 + at)
        if check.free is not None and nodes.any():
            most = (int(check.free[nodes].max()), check.counted)
            found[check.rule] = max(most, found.get(check.rule, most))
    need = {"memory": demand.memory, "disk": demand.disk}
    return {
        rule: f" ({sizes(most, need[rule])}{counted})" for rule, (most, counted) in found.items()
    }


def limits(placement: Placement) -> dict[str, int]:
    """Rule -> how many nodes it closes to an instance that has no place, most first.

    Each node counts once: for what refuses it as primary, else as secondary.  Nodes that
    are no candidates in the first place only count where there is nothing else.
    """
    counted: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    groups = placement.state.frame.cluster.groups
    for trial in placement.trials:
        if trial.reason or trial.best is not None:
            reason = "networks" if trial.reason else groups[trial.group].alloc_policy
            closed[reason] += int(trial.members.sum())
            continue
        for node in np.flatnonzero(trial.members).tolist():
            checks = (verdicts.check(node) for verdicts in trial.verdicts)
            check = next((check for check in checks if check is not None), None)
            rule = check.rule if check else "capacity" if trial.failed else "N+1"
            entry = check is not None and check.failure in ("", "FailInternal")
            (closed if entry else counted)[rule] += 1
    return dict(sorted((counted or closed).items(), key=lambda item: (-item[1], item[0])))


def limits_text(placement: Placement) -> str:
    """The same in a line: ``memory (7 nodes), N+1 (3)``."""
    parts = [f"{_SENTENCES.get(rule, rule)} ({n})" for rule, n in limits(placement).items()]
    if not parts:
        return "no nodes"
    word = "node)" if parts[0].endswith("(1)") else "nodes)"
    return ", ".join([f"{parts[0][:-1]} {word}", *parts[1:]])


def sizes(have: int, need: int) -> str:
    """What is needed and the most that is free, in MiB as in all other sentences on an answer."""
    # Of a resource of which 1 MiB has to be left the last one does not count.
    return f"{need if have < need else need + 1} MiB needed, most free {have} MiB"


def count_failures(placement: Placement, trial: GroupTrial) -> Counter[str]:
    """Refused candidates (nodes, or ordered pairs of them) by hail's classes."""
    assert trial.places is not None
    assert trial.candidates is not None
    candidates, verdicts = trial.candidates, trial.verdicts
    if placement.keeps >= 0:
        candidates, verdicts = candidates.copy(), verdicts[1:]
        candidates[placement.keeps] = False
    first, number = verdicts[0], int(candidates.sum())
    mates = number - 1 if len(verdicts) == 2 else 1
    failures: Counter[str] = Counter()
    for node in np.flatnonzero(candidates & ~first.fits).tolist():
        failures[first.failure(node)] += mates
    if len(verdicts) == 2:
        second = verdicts[1]
        fitting = int((first.fits & candidates).sum())
        for node in np.flatnonzero(candidates & ~second.fits).tolist():
            failures[second.failure(node)] += fitting - int(first.fits[node])
    # Whatever is left failed by the memory kept for its primary already.
    failures["FailMem"] += number * mates - failures.total() - trial.places.count
    failures["FailN1"] += trial.failed
    return +failures
