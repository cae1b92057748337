"""Clusters whose services are spread over places, and what an answer puts together.

The check knows the rule only: with a hard tag, no move or new instance brings more primaries of a
service into a place than the tag allows.  It shares nothing with the program.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

Message = dict[str, Any]

#: Instance -> its primary.
Primaries = dict[str, str]


class Rule(NamedTuple):
    """A tag of the cluster, as a person reads it."""

    prefix: str
    pattern: str
    most: int
    hard: bool


_RULES: Final = (
    ("steward:spread:rack:hard:max:2", Rule("rack:", "service:*", 2, True)),
    ("steward:spread:rack:hard:max:1+app:dns*", Rule("rack:", "app:dns*", 1, True)),
    ("steward:spread:power:max:2+app:*", Rule("power:", "app:*", 2, False)),
    ("steward:spread:power:hard+app:mail", Rule("power:", "app:mail", 1, True)),
    ("steward:spread:rack", Rule("rack:", "service:*", 1, False)),
)


def spread_out(message: Message, seed: int) -> tuple[Message, tuple[Rule, ...]]:
    """The same cluster with racks, power feeds, services, and some of the rules."""
    rng, changed = random.Random(seed), deepcopy(message)
    chosen = rng.sample(_RULES, rng.randint(1, 3))
    old = [tag for tag in changed["cluster_tags"] if not tag.startswith("htools:iextags:")]
    changed["cluster_tags"] = [*old, "htools:iextags:service", *(tag for tag, _ in chosen)]
    racks = rng.choice([2, 3, 5])
    for node in changed["nodes"].values():
        mine = [f"rack:{rng.randrange(racks)}", f"power:{rng.choice('ab')}"]
        if rng.random() < 0.2:
            mine.append("power:c")
        node["tags"] = [*node["tags"], *(tag for tag in mine if rng.random() < 0.9)]
    request = changed["request"]
    several = request.get("instances", ())
    named = [one for one in several if isinstance(one, dict)]
    few = [*changed["instances"].values(), request, *named]
    for instance in few:
        if "tags" in instance:
            instance["tags"] = [tag for tag in instance["tags"] if not tag.startswith("service:")]
            instance["tags"] += _services(rng, is_new=instance is request or instance in named)
    return changed, tuple(rule for _, rule in chosen)


def _services(rng: random.Random, *, is_new: bool) -> Iterator[str]:
    share = 0.9 if is_new else 0.25
    if rng.random() < share:
        yield f"service:{rng.choice('xyz')}"
    if rng.random() < share:
        yield f"app:{rng.choice(['dns', 'dns2', 'mail'])}"


def places(message: Message, rule: Rule, node: str) -> set[str]:
    """Where a node is: its tags, else itself."""
    found = {tag for tag in message["nodes"][node]["tags"] if tag.startswith(rule.prefix)}
    return found or {node}


def crowds(
    message: Message, rule: Rule, tags: Mapping[str, Iterable[str]], primaries: Primaries
) -> Counter[tuple[str, str]]:
    """(service, place) -> number of primaries; ``tags``: instance -> its tags."""
    return Counter(
        (tag, place)
        for name, node in primaries.items()
        for tag in set(tags[name])
        if fnmatchcase(tag, rule.pattern)
        for place in places(message, rule, node)
    )


def worse(message: Message, rules: Iterable[Rule], answer: Message) -> list[str]:
    """Every place that an answer brings, or brings on the way, above what a hard rule allows."""
    tags = {name: one["tags"] for name, one in message["instances"].items()}
    request, faults = message["request"], []
    for one in (request, *request.get("instances", ())):
        if isinstance(one, dict) and "tags" in one:
            tags[one["name"]] = one["tags"]
    for rule in rules:
        if not rule.hard:
            continue
        for before, after in moves(message, answer):
            then = crowds(message, rule, tags, after)
            now = crowds(message, rule, tags, before)
            faults += [
                f"{key} has {number}, at most {rule.most}"
                for key, number in then.items()
                if number > max(rule.most, now[key])
            ]
    return faults


def moves(message: Message, answer: Message) -> Iterator[tuple[Primaries, Primaries]]:
    """Primaries before each job, or new instance, and after each of its steps."""
    request, result = message["request"], answer["result"]
    primaries = {name: one["nodes"][0] for name, one in message["instances"].items()}
    if not answer["success"] or request["type"] == "allocate-secondary":
        return
    if request["type"] == "allocate":
        yield primaries, primaries | {request["name"]: result[0]}
    elif request["type"] == "multi-allocate":
        for name, nodes in result[0]:
            yield primaries, primaries | {name: nodes[0]}
            primaries = primaries | {name: nodes[0]}
    elif request["type"] == "relocate":
        if message["instances"][request["name"]]["disk_template"] != "drbd":
            yield primaries, primaries | {request["name"]: result[0]}
    else:
        nodes = {name: list(one["nodes"]) for name, one in message["instances"].items()}
        for jobs in result[2]:
            for job in jobs if isinstance(jobs[0], list) else [jobs]:
                before = {name: mine[0] for name, mine in nodes.items()}
                for operation in job:
                    _step(message, nodes, operation)
                    yield before, {name: mine[0] for name, mine in nodes.items()}


def _step(message: Message, nodes: dict[str, list[str]], operation: Message) -> None:
    mine = nodes[operation["instance_name"]]
    if operation["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
        mine[1] = operation["remote_node"]
    elif message["instances"][operation["instance_name"]]["disk_template"] == "drbd":
        mine.reverse()
    else:
        mine[0] = operation["target_node"]
