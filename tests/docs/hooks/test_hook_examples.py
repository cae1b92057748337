"""The examples on the pages of the allocators' hooks do what the pages promise."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hook_pages import fences
from paths import CAPTURES

from ganeti_steward.core.commands.check_config import config_faults
from ganeti_steward.core.commands.main import main as gnt_steward
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.options import Options

Message = dict[str, Any]
Ask = Callable[[Message], Outcome]


def capture(name: str) -> Message:
    message: Message = json.loads((CAPTURES / f"{name}.in.json").read_text())
    return message


def result(outcome: Outcome) -> Any:
    assert isinstance(outcome, Answer), outcome.info
    return outcome.result


@pytest.fixture
def example(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Ask, Ask]]:
    """How a request is answered with the page's plugin and configuration, and without."""
    hook = request.node.name.removeprefix("test_")
    (settings,), (source,) = fences(hook, "toml"), fences(hook, "python")
    (name,) = tomllib.loads(settings)["plugins"]["load"]
    (tmp_path / f"{name}.py").write_text(source)
    config_file = tmp_path / "steward.toml"
    config_file.write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))

    def with_plugin(message: Message) -> Outcome:
        config = load_config(str(config_file))
        return answer_message(json.dumps(message).encode(), Options(), config)

    def without(message: Message) -> Outcome:
        (tmp_path / "empty.toml").write_text("")
        config = load_config(str(tmp_path / "empty.toml"))
        return answer_message(json.dumps(message).encode(), Options(), config)

    # What is shown is what is meant: a page's plugin implements the page's hook.
    assert Plugins(load_config(str(config_file))).hooks(name) == [hook]
    yield with_plugin, without
    del sys.modules[name]
    importlib.invalidate_caches()


def test_steward_constrain(example: tuple[Ask, Ask]) -> None:
    """Instances tagged ``backup:*`` only on nodes tagged ``storage:big``."""
    ask, plain = example
    message = capture("allocate-drbd")
    for node in ("node4.lab", "node5.lab"):
        message["nodes"][node]["tags"] = ["storage:big"]
    assert ask(message) == plain(message)
    message["request"]["tags"] = ["backup:daily"]
    assert not set(result(plain(message))) & {"node4.lab", "node5.lab"}
    assert set(result(ask(message))) == {"node4.lab", "node5.lab"}
    message["nodes"]["node5.lab"]["tags"] = []
    refusal = ask(message)
    assert isinstance(refusal, Refusal)
    assert "2 not backup storage" in refusal.info


def test_steward_weigh(example: tuple[Ask, Ask]) -> None:
    """Nodes tagged ``ssd`` are preferred as primaries."""
    ask, plain = example
    for node in ("node3.lab", "node6.lab"):
        message = capture("allocate-drbd")
        message["nodes"][node]["tags"] = ["ssd"]
        assert result(plain(message))[0] != node
        assert result(ask(message))[0] == node
    message["nodes"]["node6.lab"]["drained"] = True
    assert result(ask(message)) == result(plain(message))


def test_steward_annotate(example: tuple[Ask, Ask]) -> None:
    """The note names the memory that is left; where there is enough there is none."""
    ask, plain = example
    message = capture("allocate-diskless")
    assert ask(message) == plain(message)
    for node in message["nodes"].values():
        node["free_memory"] = node["total_memory"] // 20 + message["request"]["memory"]
    before, after = plain(message), ask(message)
    (name,) = result(before)
    left = message["nodes"][name]["total_memory"] // 20
    note = f" ({name} has {left} MiB of memory free then)"
    assert after == before._replace(info=before.info + note)


def test_steward_check_config(example: tuple[Ask, Ask], tmp_path: Path) -> None:
    """The limit that no rack has is the only fault; allocations go on."""
    ask, plain = example
    found = list(config_faults(load_config(str(tmp_path / "steward.toml"))))
    assert found == ["plugin.rack_limits.limits.r2: a rack has 48 units, not 400"]
    assert ask(capture("allocate-drbd")) == plain(capture("allocate-drbd"))


def test_steward_commands(
    example: tuple[Ask, Ask],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command and its option; allocations go on."""
    ask, plain = example
    monkeypatch.setenv("GNT_STEWARD_CONFIG", str(tmp_path / "steward.toml"))
    for arguments, printed in ((["racks"], "r1\nr2\n"), (["racks", "--count"], "2\n")):
        assert gnt_steward(arguments) == 0
        assert capsys.readouterr() == (printed, "")
    assert ask(capture("allocate-drbd")) == plain(capture("allocate-drbd"))


def test_steward_allocate(example: tuple[Ask, Ask]) -> None:
    """``scratch`` goes where most memory is free."""
    ask, plain = example
    message = capture("allocate-plain-with-spindles")
    message["nodes"]["node4.lab"]["free_memory"] = 32000
    assert ask(message) == plain(message)
    message["request"]["tags"] = ["scratch"]
    assert result(plain(message)) != ["node4.lab"]
    after = ask(message)
    assert result(after) == ["node4.lab"]
    assert after.info == "node4.lab has most memory free: 32000 MiB"
    message["request"]["memory"] = 10**6
    assert ask(message).info.startswith("scratch: no node has 1000000 MiB free; balanced: ")


def test_steward_multi_allocate(example: tuple[Ask, Ask]) -> None:
    """A ``scratch`` batch is dealt out in turn; others are left to ``balanced``."""
    ask, plain = example
    message = capture("multi-allocate-two")
    assert ask(message) == plain(message)
    message["nodes"]["node2.lab"]["drained"] = True
    for item in message["request"]["instances"]:
        item["tags"] = ["scratch"]
    placed, failed = result(ask(message))
    assert [nodes for _, nodes in placed] == [["node1.lab"], ["node3.lab"]]
    assert failed == []


def test_steward_relocate(example: tuple[Ask, Ask]) -> None:
    """Onto the spare node of the group while there is one."""
    ask, plain = example
    message = capture("relocate-drbd")
    assert ask(message) == plain(message)
    # A fourth node in the group, which the score would not choose.
    group = message["nodes"]["node1.lab"]["group"]
    message["nodes"]["node4.lab"].update(group=group, tags=["spare"])
    assert result(plain(message)) == ["node1.lab"]
    assert result(ask(message)) == ["node4.lab"]
    message["nodes"]["node4.lab"]["offline"] = True
    assert result(ask(message)) == ["node1.lab"]


def test_steward_allocate_secondary(example: tuple[Ask, Ask]) -> None:
    """The secondary is the node that the primary names as its twin."""
    ask, plain = example
    message = capture("allocate-secondary-plain-to-drbd")
    assert ask(message) == plain(message)
    assert result(plain(message)) != "node2.lab"
    message["nodes"]["node3.lab"]["tags"] = ["twin:node2.lab"]
    assert result(ask(message)) == "node2.lab"
    message["nodes"]["node2.lab"]["drained"] = True
    message["nodes"]["node1.lab"]["drained"] = True
    assert "twins: the twin node2.lab of node3.lab is not usable; balanced: " in ask(message).info


def test_steward_capacity(example: tuple[Ask, Ask]) -> None:
    """No more instances tagged ``licensed`` than there are licences."""
    ask, plain = example
    message = capture("allocate-diskless")
    message["request"] |= {"type": "capacity", "memory": 4096}
    message["request"]["tags"] = ["licensed"]
    unlimited = plain(message)
    assert ask(message) == unlimited
    assert result(unlimited)["count"] > 0
    old = next(iter(capture("relocate-drbd")["instances"].values()))
    for name in ("old1.lab", "old2.lab"):
        message["instances"][name] = old | {"tags": ["licensed"]}
    assert ask(message).info == "all 2 licences are in use"
    assert result(ask(message)) == {"count": 0, "placements": [], "limited_by": "licences (2)"}
    message["request"]["tags"] = []
    assert ask(message) == plain(message)


def test_steward_node_evacuate(example: tuple[Ask, Ask]) -> None:
    """Instances without disks go to the standby node of their group."""
    ask, plain = example
    message = capture("node-evacuate-primary-diskless")
    assert ask(message) == plain(message)
    (name,) = message["request"]["instances"]
    (source,) = message["instances"][name]["nodes"]
    home = message["nodes"][source]["group"]
    mates = [n for n, node in message["nodes"].items() if node["group"] == home and n != source]
    for node in mates:
        message["nodes"][node]["tags"] = ["standby"]
        ((_, _, nodes),), failed, _ = result(ask(message))
        assert (nodes, failed) == ([node], [])
        message["nodes"][node]["tags"] = []
    message["nodes"][source]["tags"] = ["standby"]
    assert result(ask(message)) == result(plain(message))


def test_steward_change_group(example: tuple[Ask, Ask]) -> None:
    """Instances without disks go where most memory is free."""
    ask, plain = example
    message = capture("change-group-sharedfile-named-group")
    assert ask(message) == plain(message)
    (name,) = message["request"]["instances"]
    message["instances"][name]["disk_template"] = "diskless"
    (target,) = message["request"]["target_groups"]
    mates = [n for n, node in message["nodes"].items() if node["group"] == target]
    for node in mates:
        message["nodes"][node]["free_memory"] += 200_000
        ((_, _, nodes),), _, _ = result(ask(message))
        assert nodes == [node]
        message["nodes"][node]["free_memory"] -= 200_000
    for node in mates:
        message["nodes"][node]["free_memory"] = 1
    assert ask(message) == plain(message)


def test_steward_balance(example: tuple[Ask, Ask]) -> None:
    """Instances go back to the node they are tagged with."""
    ask, plain = example
    message = capture("relocate-drbd")
    message["request"] = {"type": "balance"}
    assert ask(message) == plain(message)
    name = next(n for n, i in message["instances"].items() if i["disk_template"] == "drbd")
    instance = message["instances"][name]
    primary, secondary = instance["nodes"]
    instance["tags"] = [f"home:{secondary}"]
    ((moved, _, nodes),), failed, jobs = result(ask(message))
    assert (moved, nodes, failed) == (name, [secondary, primary], [])
    assert [operation["OP_ID"] for job in jobs for operation in job] == ["OP_INSTANCE_MIGRATE"]
    message["request"]["max_moves"] = 0
    assert ask(message) == plain(message)
    del message["request"]["max_moves"]
    message["nodes"][secondary]["drained"] = True
    assert ask(message) == plain(message)
