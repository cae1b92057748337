"""What ``--disk``, ``--net`` and ``-B`` of ``gnt-instance add`` say of a new instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.cluster import Disk
from ganeti_steward.core.units import parse_size


def disks_given(
    given: Sequence[str], os_size: str | None, template: str
) -> list[Mapping[str, str]]:
    """The disks, each with its keys as they are given, ``size`` included.

    ``given``: as ``--disk``, ``os_size``: as ``-s``.  Raises StewardError.
    """
    if given and os_size is not None:
        raise StewardError("--disk and -s exclude each other")
    given = given or ([] if os_size is None else [f"0:size={os_size}"])
    if template == "diskless":
        if given:
            raise StewardError("a diskless instance has no disks")
        return []
    if not given:
        raise StewardError(f"a {template} instance needs a disk (--disk 0:size=SIZE)")
    disks = []
    for text in _numbered("--disk", given):
        disks.append(pairs("--disk", text, None))
        if "size" not in disks[-1]:
            raise StewardError(f"--disk {text}: the size is missing")
    return disks


def disk_of(fields: Mapping[str, str]) -> Disk:
    """What engines use of a disk; raises StewardError."""
    spindles = fields.get("spindles")
    return Disk(
        parse_size(fields["size"]), None if spindles is None else number("spindles", spindles)
    )


def nics_given(given: Sequence[str], source: Source) -> list[Mapping[str, str]]:
    """The interfaces, each with its keys as they are given; ``network`` is a uuid.

    ``given``: as ``--net``.  Raises StewardError.
    """
    nics: list[Mapping[str, str]] = []
    for text in _numbered("--net", given):
        nic = dict(pairs("--net", text, None))
        if nic.get("network", "") in ("", "none"):
            nic.pop("network", None)
        else:
            nic["network"] = _network(nic["network"], source)
        nics.append(nic)
    return nics


def _network(name: str, source: Source) -> str:
    known = {uuid for group in source.cluster.groups for uuid in group.networks}
    if name in source.networks:
        return source.networks[name]
    if name in known or name in source.networks.values():
        return name
    found = ", ".join(sorted(source.networks or known)) or "none"
    raise StewardError(f"{source.where} has no network {quoted(name)} (known: {found})")


def _numbered(option: str, given: Sequence[str]) -> list[str]:
    """What follows the numbers, in their order; each number from 0 on is there once."""
    found = {}
    for text in given:
        number, _, rest = text.partition(":")
        if not number.isascii() or not number.isdigit() or int(number) in found:
            raise StewardError(f"{option} {text}: a number and a colon are expected first")
        found[int(number)] = rest
    if sorted(found) != list(range(len(found))):
        raise StewardError(f"{option}: the numbers start at 0 and leave nothing out")
    return [found[number] for number in sorted(found)]


def pairs(option: str, text: str, known: Sequence[str] | None) -> Mapping[str, str]:
    """``key=value,...``; with ``known`` no other keys.  Raises StewardError."""
    found = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise StewardError(f"{option} {text}: KEY=VALUE is expected, found {quoted(part)}")
        if known is not None and key not in known:
            raise StewardError(f"{option}: unknown key {quoted(key)} (known: {', '.join(known)})")
        found[key] = value
    return found


def number(what: str, text: str) -> int:
    """A number of at most nine digits; raises StewardError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise StewardError(f"{what}: a number is expected, found {quoted(text)}")
    return int(text)
