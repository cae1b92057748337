"""The manual's examples: run line by line, each instance may go where the page allows it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import clusters
import pytest
from asserting import some
from paths import CAPTURES, ROOT

from ganeti_steward.core.commands.check_config import config_faults
from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.hooks.calls import PluginRules
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Allocate
from ganeti_steward.core.model.site_rules import ROLES, NoPlace
from ganeti_steward.plugins.aggregates.config import Aggregates

PAGE: Final = (ROOT / "docs" / "reference" / "aggregates.md").read_text()

Message = dict[str, Any]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


EXAMPLES: Final = blocks("")


@dataclass
class Example:
    """One instance of an example and where the page allows it, by role."""

    message: Message
    name: str
    allowed: dict[str, set[str]] = field(default_factory=dict)


def examples(example: str) -> Iterator[Example]:
    """The page's lines, done to a recorded request."""
    cluster = read("allocate-diskless")
    current: Example | None = None
    for line in example.splitlines():
        if line.startswith("#"):
            assert current is not None
            role, colon, nodes = line[1:].strip().rpartition(":")
            current.allowed[role if colon else "primary"] = set(nodes.split())
            continue
        if current is not None:
            yield current
            current = None
        command, action, *rest = shlex.split(line)
        if command == "gnt-instance":
            current = added(cluster, rest)
            continue
        assert action in ("add-tags", "remove-tags")
        tags = tags_of(cluster, command, rest)
        for tag in rest if command == "gnt-cluster" else rest[1:]:
            if action == "add-tags":
                tags.append(tag)
            else:
                tags.remove(tag)
    assert current is not None
    yield current


def read(name: str) -> Message:
    message: Message = json.loads((CAPTURES / f"{name}.in.json").read_text())
    return message


def tags_of(cluster: Message, command: str, rest: list[str]) -> list[str]:
    """The list of tags a command changes."""
    if command == "gnt-cluster":
        return cluster["cluster_tags"]  # type: ignore[no-any-return]
    if command == "gnt-node":
        return cluster["nodes"][rest[0]]["tags"]  # type: ignore[no-any-return]
    assert command == "gnt-group"
    (group,) = [g for g in cluster["nodegroups"].values() if g["name"] == rest[0]]
    return group["tags"]  # type: ignore[no-any-return]


def added(cluster: Message, rest: list[str]) -> Example:
    """``gnt-instance add`` as a request on the cluster as it is then."""
    template = rest[rest.index("-t") + 1]
    message: Message = json.loads(json.dumps(cluster))
    captured = {"diskless": "allocate-diskless", "drbd": "allocate-drbd", "ext": "allocate-ext"}
    message["request"] = read(captured[template])["request"]
    tags = rest[rest.index("--tags") + 1].split(",") if "--tags" in rest else []
    system = rest[rest.index("-o") + 1] if "-o" in rest else "noop"
    message["request"].update(name=rest[-1], tags=tags, os=system)
    return Example(message, rest[-1])


def allowed(message: Message) -> dict[str, set[str]]:
    """Where the program lets it go."""
    cluster, request = read_message(json.dumps(message).encode())
    assert isinstance(request, Allocate)
    bans = PluginRules(Plugins(Config()), Config(), request).bans(cluster, request.instance)
    everywhere = {node.name for node in cluster.nodes}
    if any(isinstance(ban, NoPlace) for ban in bans):
        return {role: set() for role in ROLES}
    return {
        role: everywhere
        - {ban.node for ban in bans if not isinstance(ban, NoPlace) and ban.role == role}
        for role in ROLES
    }


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int) -> None:
    for one in some(examples(EXAMPLES[number])):
        found = allowed(one.message)
        assert one.allowed, f"the page has no nodes for {one.name}"
        for role, nodes in one.allowed.items():
            assert found[role] == nodes, one.name
        cluster, request = read_message(json.dumps(one.message).encode())
        outcome = dispatch(request, cluster, Config(), Options(), explain=False)
        if not one.allowed["primary"]:
            assert not isinstance(outcome, Answer)
        elif isinstance(outcome, Answer):
            result: Any = outcome.result
            for role, node in zip(ROLES, result, strict=False):
                assert node in found[role]


def test_examples_are_there() -> None:
    assert len(EXAMPLES) == 9
    assert sum(len(list(examples(example))) for example in EXAMPLES) >= 16


def test_the_configuration_shown() -> None:
    (text,) = blocks("toml")
    config = parse_config("steward.toml", text.encode())
    assert list(config_faults(config)) == []
    assert config.section(Aggregates).nodes["node2.lab"] == ["reservation:r1", "ssd"]
    broken = text.replace('"!reservation:r2"', '"in:a,!b"')
    (fault,) = config_faults(parse_config("steward.toml", broken.encode()))
    assert fault.startswith("aggregates.instances.web1.lab: 'in:a,!b': ")


def test_no_step_opens_a_reserved_node() -> None:
    """From being in the free pool on, whatever line was the last one."""
    (example,) = [text for text in EXAMPLES if "remove-tags" in text]
    lines = [line for line in example.splitlines() if line.startswith(("gnt-node", "gnt-cluster"))]
    pool = next(at for at, line in enumerate(lines) if "node2.lab" in line)
    assert pool < len(lines) - 2
    for upto in range(pool + 1, len(lines) + 1):
        plain = "gnt-instance add -t diskless -I steward other.lab\n# x\n"
        (one,) = examples("\n".join([*lines[:upto], plain]))
        assert not allowed(one.message)["primary"] & {"node1.lab", "node2.lab"}


SHOWN: Final = re.findall(r"^    (\S.*)$", PAGE, re.MULTILINE)


def test_the_refusal_shown() -> None:
    (sentence,) = [line for line in SHOWN if " nodes fit: " in line]
    message = clusters.generate(
        "--nodes=12", "--request=allocate", "--new-template=plain", "--seed=1"
    )
    message["cluster_tags"].append("steward:default-forbidden-prefix:reservation:")
    tags = [*["reservation:r1"] * 7, *["hdd"] * 3, *["old"] * 2]
    for node, name in zip(message["nodes"].values(), tags, strict=True):
        node["tags"] = [f"steward:aggregate:{name}"]
    message["nodes"][max(message["nodes"])]["tags"].append("steward:aggregate:ssd")
    message["request"]["tags"] = ["steward:member-of:ssd", "steward:member-of:not:old"]
    cluster, request = read_message(json.dumps(message).encode())
    assert sentence in dispatch(request, cluster, Config(), Options(), explain=False).info


def test_the_fault_shown() -> None:
    (sentence,) = [line for line in SHOWN if line.startswith("instance ")]
    message = read("allocate-diskless")
    message["request"].update(name="web1.lab", tags=["steward:member-of:a+b"])
    cluster, request = read_message(json.dumps(message).encode())
    assert sentence in dispatch(request, cluster, Config(), Options(), explain=False).info
