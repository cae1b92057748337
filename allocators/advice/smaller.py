"""How much less memory, disk or vcpus would make a new instance fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.advice.case import SIZE, Case, Suggestion, Trier, with_instance
from ganeti_steward.core.model.cluster import Instance, MinMax, Spec
from ganeti_steward.core.model.requests import Allocate

#: Ganeti's commands round sizes up to a multiple of this, MiB.
_UNIT: Final = 4


class _Size(NamedTuple):
    """One of the sizes of an instance."""

    step: int
    """MiB, or number of vcpus"""
    value: Callable[[Instance], int]
    changed: Callable[[Instance, int], Instance]
    bound: Callable[[Spec], int]
    """the size in a bound of an instance policy"""
    text: Callable[[Instance, Instance], str]
    """the change from the first instance to the second"""


def _largest_disk(instance: Instance) -> int:
    return max((disk.size for disk in instance.disks), default=0)


def _with_disks(instance: Instance, most: int) -> Instance:
    """With no disk larger than ``most`` MiB."""
    disks = tuple(disk._replace(size=min(disk.size, most)) for disk in instance.disks)
    less = sum(disk.size for disk in instance.disks) - sum(disk.size for disk in disks)
    space = instance.disk_space and max(0, instance.disk_space - less)
    return instance._replace(disks=disks, disk_space=space)


def _memory_text(now: Instance, then: Instance) -> str:
    less = now.memory - then.memory
    return f"{then.memory} MiB of memory instead of {now.memory} MiB ({less} MiB less)"


def _disk_text(now: Instance, then: Instance) -> str:
    most = _largest_disk(then)
    if len(now.disks) == 1:
        size = now.disks[0].size
        return f"a disk of {most} MiB instead of {size} MiB ({size - most} MiB less)"
    less = sum(disk.size for disk in now.disks) - sum(disk.size for disk in then.disks)
    return f"no disk larger than {most} MiB ({less} MiB less in all)"


def _vcpus_text(now: Instance, then: Instance) -> str:
    word = "vcpu" if then.vcpus == 1 else "vcpus"
    return f"{then.vcpus} {word} instead of {now.vcpus} ({now.vcpus - then.vcpus} less)"


_MEMORY: Final = _Size(
    _UNIT,
    lambda one: one.memory,
    lambda one, memory: one._replace(memory=memory),
    lambda spec: spec.memory,
    _memory_text,
)
_DISK: Final = _Size(_UNIT, _largest_disk, _with_disks, lambda spec: spec.disk, _disk_text)
_VCPUS: Final = _Size(
    1,
    lambda one: one.vcpus,
    lambda one, vcpus: one._replace(vcpus=vcpus),
    lambda spec: spec.vcpus,
    _vcpus_text,
)
_SIZES: Final = (_MEMORY, _DISK, _VCPUS)


def smaller(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """The largest new instance that fits, by one size alone, else by several together.

    Sizes are multiples of 4 MiB, as Ganeti's commands round them.
    """
    request = case.request
    if not isinstance(request, Allocate) or request.instance.name in case.cluster.instance_index:
        return
    found = False
    for size in _SIZES:
        largest = _largest(case, request.instance, size, trier)
        if largest is not None:
            found = True
            yield _suggestion(case, request.instance, largest)
    if not found:
        together = _together(case, request.instance, trier)
        if together is not None:
            yield _suggestion(case, request.instance, together)


def _suggestion(case: Case, now: Instance, then: Instance) -> Suggestion:
    parts = [size.text(now, then) for size in _SIZES if size.value(now) != size.value(then)]
    return Suggestion(SIZE, f"with {' and '.join(parts)}", with_instance(case, then))


def _largest(case: Case, instance: Instance, size: _Size, trier: Trier) -> Instance | None:
    """The instance with the largest smaller size that fits; None where there is none.

    Less is easier for all rules but the minimum of an instance policy, so that between two
    such minima the engine's answers can be bisected.
    """
    upper = (size.value(instance) - 1) // size.step * size.step
    for lower in _minima(case, size, upper):
        if trier.succeeds(with_instance(case, size.changed(instance, lower))):
            return _bisected(case, instance, size, (lower, upper), trier)
        upper = lower - size.step
    return None


def _minima(case: Case, size: _Size, most: int) -> Sequence[int]:
    """The smallest values that instance policies allow, up to ``most``; the largest first."""
    found = {size.step}
    for pair in _pairs(case):
        found.add(max(size.step, -(-size.bound(pair.min) // size.step) * size.step))
    return sorted((value for value in found if value <= most), reverse=True)


def _pairs(case: Case) -> list[MinMax]:
    pairs = (pair for group in case.cluster.groups for pair in group.policy.minmax)
    return list(dict.fromkeys(pairs))


def _bisected(
    case: Case, instance: Instance, size: _Size, between: tuple[int, int], trier: Trier
) -> Instance:
    """The instance with the largest value that fits; the lower of ``between`` does."""
    low, high = (value // size.step for value in between)
    while low < high:
        middle = (low + high + 1) // 2
        if trier.succeeds(with_instance(case, size.changed(instance, middle * size.step))):
            low = middle
        else:
            high = middle - 1
    return size.changed(instance, low * size.step)


def _together(case: Case, instance: Instance, trier: Trier) -> Instance | None:
    """All sizes reduced as far as a policy allows, and then each enlarged again."""
    for pair in [*_pairs(case), None]:
        least = instance
        for size in _SIZES:
            bound = size.bound(pair.min) if pair else 0
            value = max(size.step, -(-bound // size.step) * size.step)
            if value < size.value(least):
                least = size.changed(least, value)
        if least != instance and trier.succeeds(with_instance(case, least)):
            return _enlarged(case, instance, least, trier)
    return None


def _enlarged(case: Case, instance: Instance, least: Instance, trier: Trier) -> Instance:
    """``least``, which fits, with one size after the other as large as possible."""
    for size in _SIZES:
        low, high = size.value(least), size.value(instance)
        if low == high:
            continue
        whole = size.changed(least, high)
        if size is _DISK:
            # Disks are only ever reduced, so this starts from those that were requested.
            whole = least._replace(disks=instance.disks, disk_space=instance.disk_space)
        if trier.succeeds(with_instance(case, whole)):
            least = whole
        else:
            least = _bisected(case, whole, size, (low, high - 1), trier)
    return least
