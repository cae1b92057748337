"""The options that describe a new instance, and the request made from them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.cli.allocator_options import option
from ganeti_steward.allocators.state.names import Names, group_named
from ganeti_steward.allocators.state.sizes import parse_size
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.cluster import DISK_TEMPLATES, Cluster, Disk, Instance
from ganeti_steward.core.model.cluster_reader import disk_space
from ganeti_steward.core.model.requests import Allocate
from ganeti_steward.core.model.sent import Sent


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


def disk_of(fields: Mapping[str, str], usual: str) -> Disk:
    """What engines use of a disk; raises StewardError.

    ``usual``: the cluster's volume group; empty: unknown, and all disks count as lying there.
    """
    spindles = fields.get("spindles")
    groups = (fields.get(key, "") if usual else "" for key in ("vg", "metavg"))
    return Disk(
        parse_size(fields["size"]),
        None if spindles is None else number("spindles", spindles),
        *("" if group == usual else group for group in groups),
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


#: The name of an instance whose name does not matter.
NAME: Final = "new.instance"
_BACKEND: Final = ("memory", "maxmem", "minmem", "vcpus", "spindle_use", "auto_balance")


class InstanceOptions(NamedTuple):
    """An instance as a user describes it; sizes with a unit or in MiB, all unchecked."""

    name: str = NAME
    backend_parameters: str = ""
    """``KEY=VALUE,...``; what is missing is as the cluster has it"""
    memory: str | None = None
    """size"""
    vcpus: str | None = None
    """number"""
    disks: Sequence[str] = ()
    """``N:size=SIZE[,spindles=NUMBER][,vg=NAME][,metavg=NAME]`` each"""
    os_size: str | None = None
    """size of the only disk, instead of ``disks``"""
    nets: Sequence[str] = ()
    """``N:network=NAME`` each"""
    group: str | None = None
    nodes: str | None = None
    """``NODE,...``: only these"""
    tags: str = ""
    """``TAG,...``"""
    os: str = ""
    """as in ``gnt-instance add``, e.g. ``debootstrap+default``; empty for none"""
    hypervisor: str = ""
    """one of the cluster's; empty for its first, as in Ganeti"""

    @property
    def sized(self) -> bool:
        """Whether any size is given."""
        given = (self.memory, self.vcpus, self.backend_parameters, self.disks)
        return any(given) or self.os_size is not None


def add_instance_options(parser: argparse._ActionsContainer) -> None:
    """What the instance is like and where it may go."""
    text = "memory (or maxmem), vcpus, spindle_use; what is missing is as the cluster has it"
    option(parser, "-B, --backend-parameters KEY=VALUE,...", text, default="")
    option(parser, "--memory SIZE", "the same as -B memory=SIZE")
    option(parser, "-c, --vcpus NUMBER", "the same as -B vcpus=NUMBER")
    text = "one disk, also with vg=NAME and metavg=NAME; may be given several times"
    option(parser, "--disk N:size=SIZE[,spindles=NUMBER]", text, several=True, dest="disks")
    option(parser, "-s, --os-size SIZE", "one disk of this size")
    text = "one network interface; may be given several times"
    option(parser, "--net N:network=NAME", text, several=True, dest="nets")
    text = "its operating system, for site rules"
    option(parser, "--os-type OS", text, default="", dest="os")
    text = "its hypervisor, for site rules; default: the cluster's first"
    option(parser, "--hypervisor NAME", text, default="")
    text = "only in this node group, by name or uuid"
    option(parser, "-G, --group, --node-group GROUP", text)
    text = "only on these nodes, by name (without the domain, too) or uuid"
    option(parser, "-n, --node, --nodes NODE,...", text, dest="nodes")
    option(parser, "--tags TAG,...", "the new instance's tags", default="")


def instance_options(options: argparse.Namespace, name: str = NAME) -> InstanceOptions:
    """The parsed options of `add_instance_options` as a value."""
    given = vars(options).items()
    fields = {key: value for key, value in given if key in InstanceOptions._fields}
    return InstanceOptions(**fields | {"name": name})


def known_template(name: str) -> str:
    """The name of a disk template; raises StewardError for another."""
    if name not in DISK_TEMPLATES:
        known = ", ".join(sorted(DISK_TEMPLATES))
        raise StewardError(f"unknown disk template {quoted(name)} (known: {known})")
    return name


def instance_request(options: InstanceOptions, template: str, source: Source) -> Allocate:
    """The request for the instance described; raises StewardError."""
    cluster = source.cluster
    if options.name in cluster.instance_index:
        raise StewardError(f"{source.where} has an instance {options.name} already")
    if options.group is not None:
        group_named(cluster, options.group)
    nodes = None if options.nodes is None else _nodes(options.nodes, cluster)
    instance = _instance(options, template, source)
    _check_volume_groups(instance, source)
    return Allocate(
        instance,
        required_nodes=2 if template == "drbd" else 1,
        group_name=options.group,
        restrict_to=nodes,
    )


def _check_volume_groups(instance: Instance, source: Source) -> None:
    """Raise StewardError for one that no node has; where a node's are unknown, any may exist."""
    known = [node.volume_groups for node in source.cluster.nodes if node.live]
    groups = [one for one in known if one is not None]
    missing = sorted({*instance.elsewhere}.difference(*groups))
    if missing and groups and len(groups) == len(known):
        found = ", ".join(sorted({name for one in groups for name in one})) or "none"
        raise StewardError(
            f"no node has the volume group {quoted(missing[0])} "
            f"(beside {source.cluster.volume_group} there are: {found})"
        )


def _instance(options: InstanceOptions, template: str, source: Source) -> Instance:
    backend = {key: str(value) for key, value in source.backend.items()}
    backend |= pairs("-B", options.backend_parameters, _BACKEND)
    memory = options.memory or backend.get("memory") or backend["maxmem"]
    given, nics = (
        disks_given(options.disks, options.os_size, template),
        nics_given(options.nets, source),
    )
    disks = tuple(disk_of(disk, source.cluster.volume_group) for disk in given)
    # Ganeti sends more than engines use, such as mode and vg of a disk: site rules may.
    more = {
        "os": options.os,
        "hypervisor": _hypervisor(options.hypervisor, source),
        "disks": [{"mode": "rw", **disk} for disk in given],
        "nics": nics,
    }
    return Instance(
        name=options.name,
        memory=parse_size(memory),
        vcpus=number("vcpus", options.vcpus or backend["vcpus"]),
        disk_space=disk_space(template, [disk.size for disk in disks]),
        disks=disks,
        template=template,
        spindle_use=number("spindle_use", backend["spindle_use"]),
        tags=tuple(filter(None, options.tags.split(","))),
        networks=tuple(nic["network"] for nic in nics if "network" in nic),
        state="up",
        forthcoming=False,
        nodes=(),
        sent=Sent(more),
    )


def _hypervisor(name: str, source: Source) -> str:
    enabled = source.cluster.hypervisors
    if name and name not in enabled:
        known = ", ".join(enabled) or "none"
        raise StewardError(f"{source.where} has no hypervisor {quoted(name)} (enabled: {known})")
    return name or next(iter(enabled), "")


def _nodes(given: str, cluster: Cluster) -> tuple[str, ...]:
    """Full names of nodes."""
    names = Names(cluster)
    found = names.nodes([given])
    names.check()
    return tuple(sorted(found))
