"""The rules of legality (allocation 4): may this node take the instance in this role?

Each rule is one `Check`: which nodes fail it, and the sentence with the numbers.  The
order of the list is hail's: the first failing check names the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.cluster import NOT_MIRRORED
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Instance, MinMax, Policy, Spec

#: hail's failure classes, in the order in which it counts them.
FAILURES: Final = (
    "FailMem",
    "FailDisk",
    "FailCPU",
    "FailN1",
    "FailTags",
    "FailMig",
    "FailDiskCount",
    "FailSpindles",
    "FailInternal",
)


#: The rule that a new node reports its disk.
DISK_REPORTED: Final = "disk not reported"

#: The rule that a node has the volume group of a disk, and room in it.
VOLUME_GROUP: Final = "volume group"

#: What nodes that a program does not use now, but perhaps later, are counted under in a refusal.
RESERVED: Final = "used by other tasks"
PASSING: Final = "under repair for a short time"

#: What sentences on the figures of allocation 3.6 end with.
_WITH_FORTHCOMING: Final = " with forthcoming instances counted"
_WITH_STOPPED: Final = " with stopped and forthcoming instances counted"


class Check(NamedTuple):
    """One rule applied to all nodes."""

    rule: str
    """its name in messages: memory, N+1, disk ..."""
    failure: str
    """hail's failure class"""
    hard: bool
    """whether it also holds where soft rules are dropped"""
    failing: Mask
    """nodes: whether the rule refuses the node"""
    text: Callable[[int], str]
    """the sentence for one node (by index), with numbers and units"""
    free: Ints | None = None
    """nodes: MiB that the rule compares with what is needed; None: no rule on memory or disk"""
    counted: str = ""
    """how this free amount is counted; empty where it is what the node reports"""


def first_failing(checks: Sequence[Check], size: int, *, forced: bool = False) -> Ints:
    """Per node 0 when nothing fails, else 1 + the position of the first failing check."""
    verdict = np.zeros(size, np.int64)
    for position in range(len(checks) - 1, -1, -1):
        check = checks[position]
        if check.hard or not forced:
            verdict[check.failing] = position + 1
    return verdict


def primary_checks(
    state: State, demand: Demand, after: Ints, *, has_copy: bool = False
) -> list[Check]:
    """The rules for a new primary (allocation 4.1); ``after`` is ``after_primary``.

    ``has_copy``: its disks are there already, so that nothing is copied.
    """
    checks: list[Check] = []
    if not demand.instance.forthcoming:
        checks = [
            *room_checks(state, demand, after, has_copy=has_copy),
            _n1_check(state, after, _primary_n1_text(state.now, demand)),
            _vcpu_check(state, demand, after, quantity.VCPUS, ""),
        ]
        if demand.exclusion:
            checks.append(_tag_check(state, demand))
    checks.append(_memory_check(state, after, quantity.MEMORY_F, demand.memory, _WITH_STOPPED))
    if not demand.instance.forthcoming and quantity.none_forthcoming(state.now):
        return checks
    return [
        *checks,
        *_storage_checks(state, demand, after, _WITH_FORTHCOMING, has_copy=has_copy),
        _vcpu_check(state, demand, after, quantity.VCPUS_F, _WITH_FORTHCOMING),
    ]


def room_checks(
    state: State, demand: Demand, after: Ints, *, has_copy: bool = False
) -> list[Check]:
    """Those of a new primary's rules that hold where soft rules are dropped, and one that does not.

    They are on its memory and storage; for an instance that is not forthcoming.
    """
    memory = _memory_check(state, after, quantity.UNALLOCATED, demand.use, "")
    lost = _lost_checks(state, demand) if has_copy and demand.instance.local else []
    return [memory, *lost, *_storage_checks(state, demand, after, "", has_copy=has_copy)]


def secondary_checks(
    state: State, demand: Demand, after: Ints, *, has_copy: bool = False
) -> list[Check]:
    """The rules for a new secondary (allocation 4.2); ``after`` is ``after_secondary``.

    ``has_copy``: its disks are there already, or were, so that nothing is copied.
    """
    if not demand.drbd:
        return [_template_check(state, demand)]
    checks = []
    if not demand.instance.forthcoming:
        checks = [
            *_storage_checks(state, demand, after, "", has_copy=has_copy),
            _takeover_check(state, demand, quantity.UNALLOCATED, "unallocated", ""),
            _n1_check(state, after, _secondary_n1_text(state.now, after)),
        ]
    every = _WITH_FORTHCOMING
    if demand.instance.forthcoming or not quantity.none_forthcoming(state.now):
        checks += _storage_checks(state, demand, after, every, has_copy=has_copy)
    return [*checks, _takeover_check(state, demand, quantity.MEMORY_F, "free", _WITH_STOPPED)]


def _memory_check(state: State, after: Ints, row: int, need: int, counted: str) -> Check:
    """Memory of the instance itself; ``counted``: how the row is counted, empty for now."""
    free, which = state.now[row], "free" if counted else "unallocated"
    text = f"needs {need} MiB and 1 to spare"
    return Check(
        "memory",
        "FailMem",
        not counted,
        after[row] <= 0,
        lambda i: f"{text}, {free[i]} MiB {which}{counted}{state.frame.overcommitted(i)}",
        free,
        counted,
    )


def _n1_check(state: State, after: Ints, text: Callable[[int], str]) -> Check:
    """No node may newly fail N+1."""
    fails = quantity.newly_fails(state.now[quantity.FAILS], after[quantity.FAILS])
    return Check("N+1", "FailMem", False, fails, text)


def _primary_n1_text(now: Ints, demand: Demand) -> Callable[[int], str]:
    return lambda i: (
        f"needs {demand.use} MiB, "
        f"{now[quantity.UNALLOCATED, i] - now[quantity.RESERVED, i]} MiB unallocated after "
        f"the N+1 reserve of {now[quantity.RESERVED, i]} MiB"
    )


def _secondary_n1_text(now: Ints, after: Ints) -> Callable[[int], str]:
    return lambda i: (
        f"would have to keep {after[quantity.RESERVED, i]} MiB free for N+1, "
        f"{now[quantity.UNALLOCATED, i]} MiB unallocated"
    )


def _takeover_check(state: State, demand: Demand, row: int, which: str, counted: str) -> Check:
    """Memory to run the instance when its primary fails."""
    now = state.now
    return Check(
        "memory",
        "FailMem",
        False,
        now[row] <= demand.reserve,
        lambda i: (
            f"must be able to take over {demand.reserve} MiB and have 1 to spare, "
            f"{now[row, i]} MiB {which}{counted}"
        ),
        now[row],
        counted,
    )


def _template_check(state: State, demand: Demand) -> Check:
    text = f"disk template {demand.instance.template} has no secondary"
    return Check("template", "FailDisk", True, np.ones(state.frame.size, np.bool_), lambda i: text)


def _lost_checks(state: State, demand: Demand) -> list[Check]:
    """Nodes that have lost a volume group of the instance, and the copies in it."""
    lost = [_pool_check(state, name) for name in demand.elsewhere]
    return [*_disk_reported_check(state, demand), *(one for one in lost if one.failing.any())]


def _in_usual(demand: Demand) -> bool:
    """Whether the instance has anything in the cluster's volume group."""
    return demand.disk > 0 or not demand.elsewhere


def _disk_reported_check(state: State, demand: Demand) -> list[Check]:
    """Nodes that do not report their disk (allocation 2.4); no rule where all do.

    They have lost the cluster's volume group.
    """
    lacks = state.frame.lacks_disk
    if not _in_usual(demand) or not lacks.any():
        return []
    return [Check(DISK_REPORTED, "FailDisk", True, lacks, state.frame.lack)]


def _pool_check(state: State, name: str) -> Check:
    """Nodes that certainly do not have a volume group."""
    text = f"has no volume group {name}"
    lacks = state.frame.lacks_pool(name)
    return Check(VOLUME_GROUP, "FailDisk", True, lacks, lambda i: text)


def _pool_checks(state: State, demand: Demand, after: Ints, suffix: str) -> list[Check]:
    """The volume groups apart from the cluster's; a node of which nothing is known passes."""
    checks: list[Check] = []
    for name, size in demand.elsewhere.items():
        if not suffix:
            checks.append(_pool_check(state, name))
        if name not in state.frame.pools:
            continue
        row = quantity.pool_rows(state.frame.pools.index(name))[bool(suffix)]
        text = f"needs {size} MiB of volume group {name} and 1 to spare"
        free = state.now[row]
        checks.append(
            Check(
                VOLUME_GROUP,
                "FailDisk",
                not suffix,
                after[row] <= 0,
                lambda i, text=text, free=free: f"{text}, {free[i]} MiB free{suffix}",  # type: ignore[misc]
            )
        )
    return checks


def _storage_checks(
    state: State, demand: Demand, after: Ints, suffix: str, *, has_copy: bool = False
) -> list[Check]:
    """Disk space by volume group, dedicated and shared spindles; ``suffix`` ends the sentences.

    ``has_copy``: the disks are there, and no figure of the node's disk is looked at.
    """
    if not demand.instance.local:
        return []
    frame, now = state.frame, state.now
    hard = not suffix
    disk, dedicated, shared = (
        (quantity.DISK_F, quantity.SPINDLES_F, quantity.SPINDLE_USE_F)
        if suffix
        else (quantity.DISK, quantity.SPINDLES, quantity.SPINDLE_USE)
    )
    wanted = "an unknown number of" if demand.spindles < 0 else str(demand.spindles)
    space = Check(
        "disk",
        "FailDisk",
        hard,
        after[disk] <= 0,
        lambda i: (
            f"needs {demand.disk} MiB of disk and 1 to spare, {now[disk, i]} MiB free{suffix}"
        ),
        now[disk],
        suffix,
    )
    room = [
        *_disk_reported_check(state, demand),
        *([space] if _in_usual(demand) else []),
        *_pool_checks(state, demand, after, suffix),
    ]
    return [
        *([] if has_copy else room),
        Check(
            "spindles",
            "FailSpindles",
            hard,
            frame.exclusive & (after[dedicated] < 0),
            lambda i: f"needs {wanted} spindles, {now[dedicated, i]} free{suffix}",
        ),
        Check(
            "spindles",
            "FailDisk",
            False,
            after[shared] > frame.spindle_limit,
            lambda i: (
                f"needs a spindle use of {demand.spindle_use}, {now[shared, i]} of "
                f"{frame.spindle_limit[i]:g} taken{suffix}"
            ),
        ),
    ]


def _vcpu_check(state: State, demand: Demand, after: Ints, row: int, suffix: str) -> Check:
    frame, now = state.frame, state.now
    # A negative ratio switches the rule off; of no CPUs, no ratio is enough.
    without = np.isinf(frame.cpus) & (after[row] > 0)
    return Check(
        "vcpus",
        "FailCPU",
        False,
        (without | (after[row] / frame.cpus > frame.vcpu_ratio)) & (frame.vcpu_ratio >= 0),
        lambda i: (
            f"needs {demand.vcpus} vcpus, {now[row, i]} of "
            f"{frame.vcpu_ratio[i] * _known(frame.cpus[i]):g} taken (vcpu-ratio "
            f"{frame.vcpu_ratio[i]:g}){suffix}"
        ),
    )


def _known(value: float) -> float:
    return 0.0 if np.isinf(value) else float(value)


def _tag_check(state: State, demand: Demand) -> Check:
    def text(node: int) -> str:
        for resident in state.residents.get(node, ()):
            both = set(resident.demand.exclusion) & set(demand.exclusion)
            if both:
                return f"{resident.demand.instance.name} there also carries {min(both)}"
        return "a forthcoming instance there carries one of its exclusion tags"

    return Check("exclusion tags", "FailTags", False, state.exclusion_tags_taken(demand) > 0, text)


def policy_fault(instance: Instance, policy: Policy, exclusive: bool) -> tuple[str, str] | None:
    """hail's failure class and a sentence when the policy forbids the instance (allocation 4.3)."""
    faults = [_range_fault(instance, pair, exclusive) for pair in policy.minmax]
    if faults and all(faults):
        return faults[0]
    if instance.template not in policy.templates:
        allowed = ", ".join(sorted(policy.templates)) or "none"
        return "FailDisk", f"disk template {instance.template} is not among {allowed}"
    return None


def _range_fault(instance: Instance, pair: MinMax, exclusive: bool) -> tuple[str, str] | None:
    return _bound_fault(instance, pair.min, exclusive, -1) or _bound_fault(
        instance, pair.max, exclusive, 1
    )


def _bound_fault(
    instance: Instance, bound: Spec, exclusive: bool, side: int
) -> tuple[str, str] | None:
    """What lies beyond one bound; ``side`` is -1 for the minimum, 1 for the maximum."""
    word = "below the minimum" if side < 0 else "above the maximum"
    spindles = instance.spindles if exclusive else instance.spindle_use
    sized = [(disk.size, bound.disk, "FailDisk", "disk size", " MiB") for disk in instance.disks]
    figures = [
        (instance.memory, bound.memory, "FailMem", "memory", " MiB"),
        *sized,
        (instance.vcpus, bound.vcpus, "FailCPU", "number of vcpus", ""),
        (spindles, bound.spindles, "FailSpindles", "number of spindles", ""),
    ]
    if instance.template != "diskless":
        disks = len(instance.disks)
        figures.append((disks, bound.disks, "FailDiskCount", "number of disks", ""))
    for value, limit, failure, what, unit in figures:
        if value is None:
            return failure, "the spindles of its disks are not given"
        if (value - limit) * side > 0:
            return failure, f"{what} {value}{unit} is {word} of {limit}{unit}"
    return None


def stays_text(instance: Instance) -> str:
    """Why no kind of move moves an instance, and what does; empty when there is one."""
    if instance.template not in NOT_MIRRORED:
        return ""
    return (
        f"its disks exist only on {instance.nodes[0]}; move it by hand: "
        f"gnt-instance move -n NODE {instance.name}"
    )
