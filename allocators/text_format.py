"""htools' text format (allocation 12), read as hbal, hspace and hcheck read it.

Five sections, each ended by one empty line: groups, nodes, instances, cluster tags, and
instance policies.  A line of a section is a list of fields separated by ``|``; the last
fields of a line may be missing, more than are known are ignored.  Beyond the known ones a node
or an instance may have a field of ours, ``vg=``: its volume groups apart from the cluster's.

Lines are turned into the objects of an iallocator message and read as one, so that both are
checked by the same rules.  What that message cannot carry is put in afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.json_reader import Faults, quoted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.cluster_reader import read_cluster

_Entry = dict[str, Any]

GROUP: Final = ("name", "uuid", "alloc_policy", "tags", "networks")
NODE: Final = (
    "name",
    "total_memory",
    "reserved_memory",
    "free_memory",
    "total_disk",
    "free_disk",
    "total_cpus",
    "offline",
    "group",
    "spindles",
    "tags",
    "exclusive_storage",
    "free_spindles",
    "reserved_cpus",
    "cpu_speed",
)
INSTANCE: Final = (
    "name",
    "memory",
    "disk_space_total",
    "vcpus",
    "status",
    "auto_balance",
    "primary",
    "secondary",
    "disk_template",
    "tags",
    "spindle_use",
    "spindles",
    "forthcoming",
)
POLICY: Final = ("owner", "std", "minmax", "disk-templates", "vcpu-ratio", "spindle-ratio")
SPEC: Final = (
    "memory-size",
    "cpu-count",
    "disk-size",
    "disk-count",
    "nic-count",
    "spindle-use",
)

#: What fields that are missing at the end of a line stand for, as hbal takes them.
_NODE_DEFAULTS: Final = {
    "spindles": "1",
    "tags": "",
    "exclusive_storage": "N",
    "free_spindles": "0",
    "reserved_cpus": "1",
    "cpu_speed": "1",
}
_INSTANCE_DEFAULTS: Final = {"spindle_use": "1", "spindles": "-", "forthcoming": "N"}
_GROUP_DEFAULTS: Final = {"networks": ""}

#: The policy of a group the file has none for, whatever the cluster's is.
_DEFAULT_POLICY: Final = (
    "128,1,1024,1,1,1",
    "128,1,1024,1,1,1;32768,8,1048576,16,8,12",
    "diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext,gluster",
    "4.0",
    "32.0",
)

#: Status -> admin_state, by what hbal counts; where an error hides the state, it counts all.
_STATES: Final = {
    "running": "up",
    "ADMIN_down": "down",
    "ADMIN_offline": "offline",
    "USER_down": "down",
    "ERROR_up": "up",
    "ERROR_down": "down",
    "ERROR_nodedown": "up",
    "ERROR_nodeoffline": "up",
    "ERROR_wrongnode": "up",
}

#: What the field of ours starts with.
_OURS: Final = "vg="

#: Stands for the cluster's volume group, whose name the format does not carry.
_USUAL: Final = "the cluster's"

_FIGURES: Final = NODE[1:7]
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)


def read_text(text: str) -> Cluster:
    """Read a cluster; raises BadInput naming every fault."""
    sections = _sections(text)
    if len(sections) < 4:
        raise BadInput(
            [
                "no cluster in htools' text format: groups, nodes, instances and cluster tags are "
                f"expected, each followed by an empty line; found {len(sections)} of these sections"
            ]
        )
    faults = Faults()
    reader = _Reader(faults)
    message, speeds, instances = reader.message(sections)
    try:
        cluster = read_cluster(message)
    except BadInput as err:
        raise BadInput([*faults.found, *err.faults]) from None
    faults.check()
    return Cluster(
        cluster.groups,
        [node._replace(cpu_speed=speeds[node.name]) for node in cluster.nodes],
        [inst._replace(auto_balance=instances[inst.name]) for inst in cluster.instances],
        cluster.tags,
    )


def _sections(text: str) -> list[list[tuple[int, str]]]:
    """The lines of each section with their numbers; the last one may lack its end."""
    sections: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(text.split("\n"), 1):
        if len(sections) == 5 and not line:
            break
        if line:
            sections[-1].append((number, line.rstrip("\r")))
        else:
            sections.append([])
    return sections


class _Reader:
    """Lines into the objects of a message, with the faults met on the way."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.line = 0

    def message(
        self, sections: list[list[tuple[int, str]]]
    ) -> tuple[_Entry, dict[str, float], dict[str, bool]]:
        """The message, the CPU speed of each node, and whether instances are balanced."""
        groups = self._groups(sections[0])
        self._policies(sections[4] if len(sections) > 4 else [], groups)
        nodes, speeds = self._nodes(sections[1])
        instances, balanced = self._instances(sections[2])
        message = {
            "nodegroups": groups,
            "nodes": nodes,
            "instances": instances,
            "cluster_tags": [line for _, line in sections[3]],
            "enabled_hypervisors": [],
            "volume_group": _USUAL,
        }
        return message, speeds, balanced

    def _groups(self, lines: list[tuple[int, str]]) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        for fields in self._lines(lines, "group", GROUP, _GROUP_DEFAULTS):
            entry = {
                "name": fields["name"],
                "alloc_policy": fields["alloc_policy"],
                "tags": _list(fields["tags"]),
                "networks": _list(fields["networks"]),
                "ipolicy": self._policy(dict(zip(POLICY[1:], _DEFAULT_POLICY, strict=True))),
            }
            self._put(found, "group", fields["uuid"], entry)
        return found

    def _policies(self, lines: list[tuple[int, str]], groups: dict[str, _Entry]) -> None:
        by_name = {group["name"]: group for group in groups.values()}
        for fields in self._lines(lines, "policy", POLICY, {}):
            policy = self._policy(fields)
            owner = fields["owner"]
            if owner in by_name:
                by_name[owner]["ipolicy"] = policy
            elif owner:
                self._fault(f"no group is named {quoted(owner)}")

    def _policy(self, fields: Mapping[str, str]) -> _Entry:
        specs = [self._spec(spec) for spec in fields["minmax"].split(";") if spec]
        if len(specs) % 2:
            self._fault(f"the minimum and maximum specs are {len(specs)}, not pairs")
        return {
            "std": self._spec(fields["std"]),
            "minmax": [
                {"min": low, "max": high}
                for low, high in zip(specs[::2], specs[1::2], strict=False)
            ],
            "disk-templates": _list(fields["disk-templates"]),
            "vcpu-ratio": self._number(fields, "vcpu-ratio"),
            "spindle-ratio": self._number(fields, "spindle-ratio"),
        }

    def _spec(self, text: str) -> _Entry:
        parts = text.split(",")
        if len(parts) != len(SPEC):
            self._fault(f"a spec has {len(SPEC)} numbers ({', '.join(SPEC)}), not {quoted(text)}")
            parts = ["0"] * len(SPEC)
        fields = dict(zip(SPEC, parts, strict=True))
        return {key: self._number(fields, key) for key in SPEC}

    def _nodes(self, lines: list[tuple[int, str]]) -> tuple[dict[str, _Entry], dict[str, float]]:
        found: dict[str, _Entry] = {}
        speeds: dict[str, float] = {}
        for fields in self._lines(lines, "node", NODE, _NODE_DEFAULTS):
            figures = {
                key: None if fields[key] == "?" else self._number(fields, key) for key in _FIGURES
            }
            # hbal keeps the figures of a node marked offline, as Ganeti does of drained ones.
            off = fields["offline"] == "Y"
            dead = off and not figures["total_memory"]
            exclusive = self._yes(fields, "exclusive_storage")
            spindles = self._number(fields, "spindles")
            entry = {
                "group": fields["group"],
                "offline": dead,
                "drained": off and not dead,
                "tags": _list(fields["tags"]),
                "ndparams": {"exclusive_storage": exclusive, "spindle_count": spindles},
                **figures,
                "total_spindles": spindles,
                "free_spindles": self._number(fields, "free_spindles"),
                "reserved_cpus": self._number(fields, "reserved_cpus"),
                "volume_groups": self._volume_groups(fields),
            }
            self._put(found, "node", fields["name"], entry)
            speeds[fields["name"]] = float(self._number(fields, "cpu_speed"))
        return found, speeds

    def _instances(self, lines: list[tuple[int, str]]) -> tuple[dict[str, _Entry], dict[str, bool]]:
        found: dict[str, _Entry] = {}
        balanced: dict[str, bool] = {}
        for fields in self._lines(lines, "instance", INSTANCE, _INSTANCE_DEFAULTS):
            if fields["status"] not in _STATES:
                known = ", ".join(_STATES)
                self._fault(f"unknown status {quoted(fields['status'])} (known: {known})")
            space = self._number(fields, "disk_space_total")
            spindles = None if fields["spindles"] == "-" else self._number(fields, "spindles")
            elsewhere = self._parts(fields, 2)
            usual = space - sum(size for _, size in elsewhere)
            entry = {
                "memory": self._number(fields, "memory"),
                "vcpus": self._number(fields, "vcpus"),
                "disk_space_total": space,
                # The format knows sums only, each of which counts as one disk.
                "disks": [
                    {"size": usual, "spindles": spindles},
                    *({"size": size, "spindles": 0, "vg": name} for name, size in elsewhere),
                ],
                "disk_template": fields["disk_template"],
                "spindle_use": self._number(fields, "spindle_use"),
                "tags": _list(fields["tags"]),
                "nics": [],
                "admin_state": _STATES.get(fields["status"], "up"),
                "status": fields["status"],
                "forthcoming": self._yes(fields, "forthcoming"),
                "nodes": [name for name in (fields["primary"], fields["secondary"]) if name],
            }
            self._put(found, "instance", fields["name"], entry)
            balanced[fields["name"]] = self._yes(fields, "auto_balance")
        return found, balanced

    def _lines(
        self,
        lines: list[tuple[int, str]],
        kind: str,
        names: Sequence[str],
        defaults: Mapping[str, str],
    ) -> Iterator[dict[str, str]]:
        """The fields of each line by name; a line that is too short is a fault."""
        needed = len(names) - len(defaults)
        for self.line, line in lines:
            if self.faults.many:
                return
            fields = line.split("|")
            if len(fields) < needed:
                wanted = "|".join(names[:needed])
                self._fault(f"the fields of one {kind} start {wanted}, found {quoted(line)}")
                continue
            ours = next((one for one in fields[len(names) :] if one.startswith(_OURS)), "")
            yield {**defaults, _OURS: ours, **dict(zip(names, fields, strict=False))}

    def _put(self, found: dict[str, _Entry], kind: str, name: str, entry: _Entry) -> None:
        if name in found:
            self._fault(f"a second {kind} {quoted(name)}")
        found[name] = entry

    def _number(self, fields: Mapping[str, str], key: str) -> float:
        value = fields[key]
        if not _NUMBER.fullmatch(value):
            self._fault(f"field {key!r}: a number is expected, found {quoted(value)}")
            return 0
        return float(value) if "." in value else int(value)

    def _volume_groups(self, fields: Mapping[str, str]) -> _Entry | None:
        """``vg=ssd:TOTAL:FREE,hdd:TOTAL:FREE`` in MiB; None: not known."""
        if not fields[_OURS]:
            return None
        parts = self._parts(fields, 3)
        return {name: {"total": total, "free": free} for name, total, free in parts}

    def _parts(self, fields: Mapping[str, str], length: int) -> list[Any]:
        """The entries of the field of ours: a name and numbers, together ``length`` parts."""
        text = fields[_OURS]
        parts = [part.split(":") for part in _list(text.removeprefix(_OURS))]
        good = [part for part in parts if len(part) == length and part[0]]
        if len(good) < len(parts):
            wanted = ":".join(("NAME", *("MIB",) * (length - 1)))
            self._fault(f"{_OURS} is followed by {wanted},{wanted} ..., found {quoted(text)}")
        return [(name, *(self._number({name: one}, name) for one in more)) for name, *more in good]

    def _yes(self, fields: Mapping[str, str], key: str) -> bool:
        if fields[key] not in ("Y", "N"):
            self._fault(f"field {key!r}: Y or N is expected, found {quoted(fields[key])}")
        return fields[key] == "Y"

    def _fault(self, text: str) -> None:
        self.faults.add(f"line {self.line}", text)


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]
