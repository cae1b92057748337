"""How full nodes and groups are: the values of a picture, and the same in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ganeti_steward.allocators.state.sizes import format_size

CPU: Final = "CPU"
#: What each bar of a node or group is about, in the order of the bars.
KINDS: Final = ("memory", "disk", CPU)


#: The note of a node without room for the instances of a failing one.
FAILS_N1: Final = "fails N+1"


#: MiB from which on a size is in TiB.
_LARGE: Final = 10 * 1024**2


class Amount(NamedTuple):
    """How much of one resource is used; MiB for memory and disk, virtual CPUs for CPU."""

    used: float
    total: float | None
    """None: unknown, or without limit"""
    reserved: float = 0.0
    """what has to stay free, so that instances of a failing node can start here (N+1)"""

    @property
    def fails(self) -> bool:
        """Whether less is free than has to be."""
        return self.total is not None and self.used + self.reserved > self.total


class Filled(NamedTuple):
    """A node, or a group as the sum of its nodes."""

    name: str
    now: tuple[Amount, ...]
    """one for each of `KINDS`"""
    after: tuple[Amount, ...] = ()
    """the same when the planned moves are done; empty where none are planned"""
    notes: tuple[str, ...] = ()
    """what is not as it should be, in a few words each"""


class FilledGroup(NamedTuple):
    """A node group and its nodes."""

    whole: Filled
    nodes: tuple[Filled, ...]


Overview = tuple[FilledGroup, ...]


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum; what is of unknown size counts in no part of it."""
    known = [(one.used, one.total, one.reserved) for one in amounts if one.total is not None]
    if not known:
        return Amount(0, None)
    used, size, reserved = map(sum, zip(*known, strict=True))
    return Amount(used, size, reserved)


def sums(nodes: Iterable[tuple[Amount, ...]]) -> tuple[Amount, ...]:
    """Of each kind, also where there is no node."""
    amounts = tuple(nodes)
    return tuple(total(one[at] for one in amounts) for at in range(len(KINDS)))


def percent(amount: Amount) -> str:
    """The share in use: ``61 %``; ``unknown`` where the whole is."""
    if not amount.total:
        return "unknown"
    return f"{100 * amount.used / amount.total:.0f} %"


def change(now: Amount, after: Amount | None) -> str:
    """The share in use now and later: ``61 → 48 %``; once where both are the same."""
    if after is None or percent(now) == percent(after):
        return percent(now)
    return f"{percent(now).removesuffix(' %')} → {percent(after)}"


def absolute(kind: str, now: Amount, after: Amount | None = None) -> str:
    """The amounts in use now and later, and the whole: ``39.1 → 30.7 of 64.0 GiB``."""
    if not now.total:
        return ""
    unit = "vcpus" if kind == CPU else "TiB" if now.total >= _LARGE else "GiB"
    divisor = {"vcpus": 1, "GiB": 1024, "TiB": 1024**2}[unit]
    digits = 0 if kind == CPU or now.total / divisor >= 1000 else 1
    used, *later = [f"{one.used / divisor:.{digits}f}" for one in (now, after) if one is not None]
    arrow = f" → {later[0]}" if later and later[0] != used else ""
    return f"{used}{arrow} of {now.total / divisor:.{digits}f} {unit}"


def in_words(kind: str, now: Amount, after: Amount | None = None) -> str:
    """A pair of bars as a sentence, for those who cannot see it."""
    text = f"{kind}: {_in_use(kind, now)}"
    return text if after is None or after == now else f"{text}; planned: {_in_use(kind, after)}"


def _in_use(kind: str, amount: Amount) -> str:
    if not amount.total:
        unlimited = f"{_size(kind, amount.used)} in use, without a known limit"
        return unlimited if amount.used else "unknown"
    text = f"{_size(kind, amount.used)} of {_size(kind, amount.total)} in use"
    if amount.reserved:
        text += f", {_size(kind, amount.reserved)} reserved for N+1"
    if amount.fails:
        lacking = amount.used + amount.reserved - amount.total
        text += f", {_size(kind, lacking)} too much"
    return text


def _size(kind: str, value: float) -> str:
    return f"{value:.0f} vcpus" if kind == CPU else f"{format_size(value, 'h')}iB"
