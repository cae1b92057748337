"""Generated clusters for tests: one seed, one cluster with a request."""

from __future__ import annotations

import random
from typing import Any

import make_cluster

Message = dict[str, Any]

#: Requests that move what is there.
MOVING = ("primary-only", "secondary-only", "all", "change-group")
KINDS = (
    *("allocate-one", "allocate-pair", "multi-allocate", "relocate", "allocate-secondary"),
    *MOVING,
)

_MIXES = (
    "drbd=1",
    "drbd=7,plain=2,ext=1",
    "plain=1",
    "ext=1",
    "drbd=5,diskless=2,sharedfile=2,plain=1",
    "drbd=6,plain=4",
)


def cluster(seed: int, kind: str, *more: str, nodes: int = 0) -> Message:
    """A message of one kind; what the cluster is like depends on the seed alone."""
    rng = random.Random(seed)
    mixes = [mix for mix in _MIXES if _offers(mix, kind)]
    groups = rng.choice([1, 1, 2, 3])
    arguments = [
        f"--nodes={nodes or rng.choice([6, 8, 10, 12, 15])}",
        f"--groups={groups}",
        f"--mix={rng.choice(mixes)}",
        f"--seed={seed}",
        f"--per-node={rng.choice([4, 8, 10])}",
        f"--fill={rng.choice([0.3, 0.55, 0.75, 0.9])}",
        *_features(rng),
        *more,
    ]
    if groups > 1 and rng.random() < 0.4:
        policies = ["preferred,last_resort", "unallocable,preferred"]
        arguments.append(f"--policies={rng.choice(policies)}")
    try:
        return generate(*arguments, *_request(rng, kind))
    except SystemExit:
        # By chance it has no instance that the request can be about.
        return cluster(seed + 10**6, kind, *more, nodes=nodes)


def generate(*arguments: str) -> Message:
    """A message made with these options of ``contrib/bench/make_cluster.py``."""
    options = make_cluster.parser().parse_args(arguments)
    message: Message = make_cluster.build(options)
    message["request"] = make_cluster.make_request(options, message)
    return message


def _offers(mix: str, kind: str) -> bool:
    """Whether a cluster of this mix has something the request can be about."""
    if kind == "allocate-secondary":
        return "plain" in mix
    if kind in ("relocate", "change-group"):
        return "drbd" in mix or "ext" in mix
    return kind != "secondary-only" or "drbd" in mix


def _features(rng: random.Random) -> list[str]:
    chances = (
        (0.25, "--offline=1"),
        (0.25, "--drained=1"),
        (0.1, "--vm-incapable=1"),
        (0.3, "--excl-tags=.3"),
        (0.3, "--location-tags"),
        (0.2, "--desired-location=.3"),
        (0.15, "--migration-tags"),
        (0.15, "--exclusive-storage"),
        (0.2, "--missing-mem=2000"),
        (0.2, "--forthcoming=.1"),
        (0.2, "--down=.2"),
        (0.2, "--admin-offline=.1"),
        (0.2, "--hypervisor=kvm"),
        (0.2, "--vcpu-ratio=1.5"),
        (0.2, "--spindle-ratio=3"),
    )
    return [option for chance, option in chances if rng.random() < chance]


def _request(rng: random.Random, kind: str) -> list[str]:
    if kind == "allocate-one":
        template = rng.choice(["plain", "ext", "diskless", "sharedfile"])
        return ["--request=allocate", f"--new-template={template}"]
    if kind == "allocate-pair":
        return ["--request=allocate", "--new-template=drbd"]
    if kind == "multi-allocate":
        mix = rng.choice(["drbd=1", "plain=1", "drbd=2,plain=1,ext=1"])
        return ["--request=multi-allocate", "--count=5", f"--new-mix={mix}"]
    if kind == "change-group":
        return ["--request=change-group", f"--count={rng.choice([1, 3, 6])}"]
    if kind in MOVING:
        return ["--request=node-evacuate", f"--evac-mode={kind}"]
    return [f"--request={kind}"]
