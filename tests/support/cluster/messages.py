"""A small good message of each request type, and ways to change and answer it."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.message import write_answer
from ganeti_steward.core.model.answer import Outcome
from ganeti_steward.core.model.options import parse_options

Json = dict[str, Any]

KINDS: Final = ("allocate", "multi-allocate", "relocate", "allocate-secondary")

#: As a value: take the key away.
GONE: Final = object()


def _spec(memory: int, vcpus: int, disk: int, disks: int, nics: int, spindles: int) -> Json:
    return {
        "memory-size": memory,
        "cpu-count": vcpus,
        "disk-size": disk,
        "disk-count": disks,
        "nic-count": nics,
        "spindle-use": spindles,
    }


def policy() -> Json:
    low, high = _spec(128, 1, 1024, 1, 1, 1), _spec(32768, 16, 1048576, 16, 8, 12)
    return {
        "minmax": [{"min": low, "max": high}],
        "std": _spec(2048, 2, 20480, 1, 1, 1),
        "disk-templates": ["drbd", "plain", "ext", "diskless"],
        "vcpu-ratio": 4.0,
        "spindle-ratio": 32.0,
    }


def node(group: str = "uuid-g") -> Json:
    return {
        "group": group,
        "offline": False,
        "drained": False,
        "vm_capable": True,
        "tags": [],
        "ndparams": {"spindle_count": 2, "exclusive_storage": False},
        "total_memory": 16896,
        "reserved_memory": 512,
        "free_memory": 16384,
        "total_disk": 102400,
        "free_disk": 102400,
        "total_spindles": 2,
        "free_spindles": 2,
        "total_cpus": 8,
        "reserved_cpus": 0,
    }


def body(template: str) -> Json:
    return {
        "memory": 1024,
        "vcpus": 1,
        "spindle_use": 1,
        "disk_space_total": 10240,
        "disks": [{"size": 10240, "mode": "rw", "spindles": None}],
        "disk_template": template,
        "tags": [],
        "nics": [{"mac": "aa:00:01:00:00:b9", "ip": None, "mode": "bridged", "link": "br0"}],
    }


def wanted(name: str, template: str = "ext") -> Json:
    required = 2 if template == "drbd" else 1
    return {**body(template), "name": name, "required_nodes": required, "group_name": None}


_REQUESTS: Final[dict[str, Json]] = {
    "allocate": {"type": "allocate", **wanted("new.test")},
    "multi-allocate": {
        "type": "multi-allocate",
        "instances": [wanted("new1.test"), wanted("new2.test")],
    },
    "relocate": {
        "type": "relocate",
        "name": "d1.test",
        "required_nodes": 1,
        "relocate_from": ["n2.test"],
    },
    "allocate-secondary": {"type": "allocate-secondary", "name": "p1.test"},
}


def message(kind: str = "allocate") -> Json:
    """A good message: four equal nodes, one instance of each kind of storage."""
    return copy.deepcopy(
        {
            "version": 2,
            "cluster_name": "cluster.test",
            "cluster_tags": [],
            "enabled_hypervisors": ["xen-pvm"],
            "ipolicy": policy(),
            "nodegroups": {
                "uuid-g": {
                    "name": "group",
                    "alloc_policy": "preferred",
                    "networks": [],
                    "ipolicy": policy(),
                    "tags": [],
                }
            },
            "nodes": {f"n{number}.test": node() for number in (1, 2, 3, 4)},
            "instances": {
                "d1.test": {**body("drbd"), "nodes": ["n1.test", "n2.test"]},
                "e1.test": {**body("ext"), "nodes": ["n1.test"]},
                "p1.test": {**body("plain"), "nodes": ["n3.test"]},
            },
            "request": _REQUESTS[kind],
        }
    )


def put(tree: Json, path: str, value: object) -> Json:
    """Change one place of a message, named like ``nodes/n1.test/group``."""
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    place: Any = tree
    for step in way:
        place = place[step]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return tree


def outcome(raw: bytes | Json, *options: str) -> Outcome:
    data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    return answer_message(data, parse_options(options), Config())


def answer(raw: bytes | Json, *options: str) -> Json:
    """The answer as Ganeti reads it."""
    written: Json = json.loads(write_answer(outcome(raw, *options)))
    return written
