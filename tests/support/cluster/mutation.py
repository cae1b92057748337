"""Damaged iallocator messages, made from real ones and from random clusters, and other inputs.

Everything follows from the seed: the same seed always gives the same bytes.
"""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from paths import DATA

Json = dict[str, Any]

#: Marker in a damaged tree -> what is written in its place; no JSON writer would write these.
_RAW = {
    "@list@": "[" * 10_000 + "]" * 10_000,
    "@object@": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "@open@": "[" * 10_000,
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@huge@": "1e400",
    "@digits@": "9" * 5000,
    "@zeros@": "0.00",
    "@octal@": "010",
    "@bare@": "nodes",
    "@nothing@": "",
    "@half@": "\\ud800",
}

#: Behind a key: written as another member of the same name.
_AGAIN = "\x00again"

_NUMBERS = (
    *(0, 1, -1, 2, 3, 128, 1024, 4096, 10**6, 10**9, 2**31, 2**32, 2**40, 2**40 + 1, 2**50),
    *(2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**31), -(2**40), -(2**63), -(2**64)),
    *(10**40, -(10**40), -(10**400)),
    *(0.5, 1.5, 2.5, -0.0, 1e-300, 1e15, 1e308, -1e308, 1024.7, -0.5),
)
_TEXTS = (
    *("", "a", "node1.lab", "n1.test", "drbd", "plain", "ext", "file", "diskless", "sharedfile"),
    *("preferred", "last_resort", "unallocable", "up", "down", "offline", "kvm", "xen-pvm"),
    *("allocate", "relocate", "allocate-secondary", "multi-allocate", "node-evacuate"),
    *("change-group", "multi-evacuate", "balance", "1", "true", "null"),
    *("zürich.例え.test", "\x00", "a\nb\r\u2028c", "\x1b[31m", "😀", "../../etc/passwd", "'\"\\"),
    *("\ud800", "\udcff", "x" * 100_000, "@half@"),
)
_VALUES: tuple[Any, ...] = (
    *_NUMBERS,
    *_TEXTS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": {}},
    *_RAW,
)

#: Values some key takes in a good message, so that damage also reaches the engine.
_FITTING: dict[str, tuple[Any, ...]] = {
    "disk_template": ("drbd", "plain", "ext", "file", "diskless", "rbd", "gluster", "sharedfile"),
    "alloc_policy": ("preferred", "last_resort", "unallocable"),
    "admin_state": ("up", "down", "offline", "strange", None, 5),
    "type": ("allocate", "relocate", "multi-allocate", "node-evacuate", "balance", "capacity"),
    "evac_mode": ("primary-only", "secondary-only", "all"),
    "target_groups": ([], ["uuid-0"], ["group-uuid-1", "uuid-2"], ["nowhere"]),
    "required_nodes": (0, 1, 2, 3, -1),
    "enabled_hypervisors": (["kvm"], [], ["xen-pvm", "kvm"], ["fake"]),
    "forthcoming": (True, False, None),
    "restrict-to-nodes": (None, [], ["node1.lab", "node2.lab"], ["n1.test"], ["nowhere"]),
    "group_name": (None, "default", "rack2", "group00", "nowhere", ""),
    "minmax": ([],),
    "disk-templates": ([], ["drbd"]),
    "disks": ([], [{"size": 1024}], [{"size": 0, "spindles": 1}], [{"size": 1, "spindles": 0}]),
    "nics": ([], [{}], [{"network": "net-0"}], [{"mode": None, "network": None}]),
}

OPTIONS: tuple[tuple[str, ...], ...] = (
    *((), (), (), ("--no-capacity-checks",), ("--ignore-soft-errors",)),
    *(("--static-kvm-node-memory=0",), ("--restrict-allocation-to=node1.lab,n2.test,m1",)),
    ("--no-capacity-checks", "--ignore-soft-errors", "--unknown=1"),
)


@functools.cache
def messages() -> tuple[Json, ...]:
    """The good messages damage starts from: captured ones and the golden ones."""
    files = sorted((DATA / "captures").glob("*.in.json"))
    captured = [json.loads(file.read_bytes()) for file in files]
    golden = [
        json.loads(file.read_bytes())["input"] for file in sorted((DATA / "vectors").glob("*.json"))
    ]
    assert captured
    assert golden
    return (*captured, *golden)


def random_message(rng: random.Random) -> Json:
    """A small cluster of any kind with a request of any type."""
    nodes = [f"m{i}" for i in range(rng.randint(0, 7))]
    groups = [f"uuid-{i}" for i in range(rng.randint(1, 3))]
    exclusive = rng.random() < 0.2
    instances = {f"i{i}": _instance(rng, nodes) for i in range(rng.randint(0, 9) if nodes else 0)}
    name = rng.choice([*instances, "new"])
    kinds = ("allocate", "multi-allocate", "relocate", "allocate-secondary")
    moving = ("node-evacuate", "node-evacuate", "change-group", "balance")
    kind = rng.choice((*kinds, *moving, "capacity"))
    request: Json = {"type": kind, "name": name}
    if kind in ("allocate", "capacity"):
        request |= _wanted(rng, nodes)
    elif kind == "balance":
        request["max_moves"] = rng.choice((None, 0, 1, 3, -1, "2"))
    elif kind == "multi-allocate":
        request["instances"] = [
            {"name": f"new{i}", **_wanted(rng, nodes)} for i in range(rng.randint(0, 4))
        ]
    elif kind == "relocate":
        known = instances.get(name, {"nodes": nodes})["nodes"]
        request |= {"required_nodes": 1, "relocate_from": known[-1:]}
    elif kind in ("node-evacuate", "change-group"):
        request["instances"] = rng.sample(list(instances), rng.randint(0, len(instances)))
        request["evac_mode"] = rng.choice(("primary-only", "secondary-only", "all"))
        request["target_groups"] = rng.choice(([], groups, groups[:1]))
    return {
        "cluster_tags": rng.choice(([], ["htools:iextags:s", "htools:nlocation:r"])),
        "enabled_hypervisors": [rng.choice(("kvm", "xen-pvm"))],
        "nodegroups": {uuid: _group(rng, uuid) for uuid in groups},
        "nodes": {node: _node(rng, rng.choice(groups), exclusive) for node in nodes},
        "instances": instances,
        "request": request,
    }


def _group(rng: random.Random, uuid: str) -> Json:
    def spec(*figures: int) -> Json:
        keys = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")
        return dict(zip(keys, figures, strict=True))

    low, high = spec(64, 1, 64, 0, 0, 1), spec(32768, 16, 2**20, 16, 8, 12)
    small = {"min": low, "max": spec(2048, 2, 4096, 2, 2, 2)}
    return {
        "name": f"group-{uuid}",
        "alloc_policy": rng.choice(("preferred", "preferred", "last_resort", "unallocable")),
        "networks": rng.choice(([], ["net-0"])),
        "tags": rng.choice(([], ["htools:iextags:t"])),
        "ipolicy": {
            "minmax": rng.choice(([{"min": low, "max": high}], [small, {"min": low, "max": high}])),
            "std": low,
            "disk-templates": ["drbd", "plain", "ext", "diskless", "file"],
            "vcpu-ratio": rng.choice((4, 1.0, 64.0, 0)),
            "spindle-ratio": rng.choice((32, 1.5, 0)),
        },
    }


def _node(rng: random.Random, group: str, exclusive: bool) -> Json:
    memory = rng.choice((16384, 8192, 4096, 0))
    disk = rng.choice((102400, 40960, 0))
    return {
        "group": group,
        "offline": rng.random() < 0.1,
        "drained": rng.random() < 0.1,
        "vm_capable": rng.random() < 0.95,
        "tags": rng.choice(([], ["r:1"], ["r:2"], ["htools:migration:a"])),
        "ndparams": {"exclusive_storage": exclusive, "spindle_count": rng.randint(0, 4)},
        "total_memory": memory,
        "reserved_memory": rng.choice((0, 512, 1024)),
        "free_memory": rng.randint(0, memory),
        "total_disk": disk,
        "free_disk": rng.randint(0, disk),
        "total_cpus": rng.choice((8, 32, 0)),
        "reserved_cpus": rng.randint(0, 1),
        "total_spindles": rng.randint(0, 8),
        "free_spindles": rng.randint(-1, 8),
    }


def _body(rng: random.Random) -> Json:
    size = rng.choice((1024, 4096, 65536, 0))
    return {
        "memory": rng.choice((128, 1024, 4096, 40000, 0)),
        "vcpus": rng.choice((1, 2, 8, 0)),
        "spindle_use": rng.randint(0, 2),
        "disk_space_total": size + 128,
        "disks": [{"size": size, "spindles": rng.choice((None, 1, 0))}] * rng.randint(0, 2),
        "disk_template": rng.choice(("drbd", "drbd", "plain", "ext", "file", "diskless")),
        "tags": rng.choice(([], ["s:1"], ["s:1", "t:2"], ["htools:desiredlocation:r:1"])),
        "nics": rng.choice(([], [{"mode": "routed"}], [{"network": "net-0"}])),
        "admin_state": rng.choice(("up", "up", "down", "offline")),
        "forthcoming": rng.random() < 0.1,
    }


def _instance(rng: random.Random, nodes: list[str]) -> Json:
    body = _body(rng)
    count = min(2 if body["disk_template"] == "drbd" else 1, len(nodes))
    if body["disk_template"] == "drbd" and count == 1:
        body["disk_template"] = "plain"
    return {**body, "nodes": rng.sample(nodes, count)}


def _wanted(rng: random.Random, nodes: list[str]) -> Json:
    body = _body(rng)
    return {
        **body,
        "required_nodes": 2 if body["disk_template"] == "drbd" else 1,
        "group_name": rng.choice((None, None, None, "group-uuid-0", "uuid-1")),
        "restrict-to-nodes": rng.choice((None, None, None, nodes[:3])),
    }


def damaged(seed: int) -> tuple[bytes, tuple[str, ...]]:
    """A message damaged in a few places, with some options of the command line."""
    rng = random.Random(seed)
    good = random_message(rng) if rng.random() < 0.4 else copy.deepcopy(rng.choice(messages()))
    return damaged_json(rng, good), rng.choice(OPTIONS)


def damaged_json(rng: random.Random, tree: Any) -> bytes:
    """A JSON text of a list or an object, which is changed, with damage in a few places."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        _damage(rng, tree)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.9)
    text = text.replace(json.dumps(_AGAIN)[1:-1], "")
    for marker, raw in _RAW.items():
        text = text.replace(f'"{marker}"', raw)
    raw_bytes = text.encode(errors=rng.choice(("surrogatepass", "replace")))
    if rng.random() < 0.1:
        raw_bytes = broken(rng, raw_bytes)
    return raw_bytes


def damaged_text(rng: random.Random, text: str) -> bytes:
    """A text whose words, numbers and lines are changed in a few places."""
    parts = re.split(r"(\W)", text)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(parts))
        kind = rng.randrange(4)
        if kind == 0:
            parts[at] = str(
                rng.choice((*_NUMBERS, *_TEXTS, 10**400, "9" * 5000, "nan", "[" * 9000))
            )
        elif kind == 1:
            parts[at] = ""
        elif kind == 2:
            parts.insert(at, rng.choice(parts))
        else:
            parts[at:at] = rng.sample(parts, min(len(parts), 9))
    raw = "".join(parts).encode(errors=rng.choice(("surrogatepass", "replace")))
    return broken(rng, raw) if rng.random() < 0.1 else raw


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or index) of a tree."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def _damage(rng: random.Random, tree: Any) -> None:
    # The request and the top level are small; most damage would miss them.
    part = tree.get("request") if rng.random() < 0.3 and isinstance(tree, dict) else tree
    places = list(_places(part if isinstance(part, dict) else tree))
    if not places:
        return
    holder, key = rng.choice(places)
    rng.choice(_DAMAGES)(rng, holder, key)


def _replace(rng: random.Random, holder: Any, key: Any) -> None:
    # A copy: later damage to it would be in the inputs of other seeds, too.
    holder[key] = copy.deepcopy(rng.choice(_VALUES))


def _fit(rng: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder[key], bool):
        holder[key] = not holder[key]
    elif isinstance(holder[key], int | float):
        holder[key] = rng.choice(
            (*_NUMBERS[:15], -holder[key], _bounded(holder[key]) * rng.random())
        )
    elif key in _FITTING:
        holder[key] = copy.deepcopy(rng.choice(_FITTING[key]))


def _bounded(number: float) -> float:
    return min(max(number, -1e300), 1e300)


def _drop(rng: random.Random, holder: Any, key: Any) -> None:
    del holder[key]


def _rename(rng: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        name = rng.choice((*_TEXTS, key.upper(), key + "x", key.replace("_", "-")))
        holder[name] = holder.pop(key)


def _double(rng: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[key + _AGAIN] = copy.deepcopy(rng.choice(_VALUES))
    else:
        holder.insert(key, copy.deepcopy(holder[key]))


def _swap(rng: random.Random, holder: Any, key: Any) -> None:
    value = holder[key]
    if isinstance(value, dict):
        holder[key] = list(value.values())
    elif isinstance(value, list):
        holder[key] = {str(number): item for number, item in enumerate(value)}
    else:
        holder[key] = [value]


def _empty(rng: random.Random, holder: Any, key: Any) -> None:
    holder[key] = type(holder[key])() if holder[key] is not None else {}


_Damage = Callable[[random.Random, Any, Any], None]
_DAMAGES: tuple[_Damage, ...] = (
    *(_replace, _replace, _fit, _fit, _fit, _fit, _drop, _rename, _double, _swap, _empty),
)


def broken(rng: random.Random, raw: bytes) -> bytes:
    """Damage below the level of JSON."""
    at = rng.randrange(len(raw) + 1)
    kind = rng.randrange(5)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + rng.choice((b"\xff", b"\xc3\x28", b"\x00", b"\xed\xa0\x80")) + raw[at:]
    if kind == 2:
        return raw + rng.choice((b"{}", b"garbage", b"\x00", b"\xef\xbb\xbf"))
    if kind == 3:
        return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b" ")) + raw
    return raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
