"""Every hook has a page and a test, and the page's example does what the page promises."""

from __future__ import annotations

import importlib
import json
import re
import sys
import syslog
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import worlds
from paths import CAPTURES, ROOT

from ganeti_steward.core.commands.check_config import config_faults
from ganeti_steward.core.commands.main import main as gnt_steward
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.hooks import hookspecs
from ganeti_steward.core.hooks.calls import call
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import Task
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.core.model.options import Options
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.testing import RecordedMachine

Message = dict[str, Any]
Ask = Callable[[Message], Outcome]

PAGES: Final = ROOT / "docs" / "reference" / "hooks"
HOOKS: Final = sorted(name for name in vars(hookspecs) if name.startswith("steward_"))


def fences(hook: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    text = (PAGES / f"{hook}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


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


def test_every_hook_has_a_page() -> None:
    assert HOOKS
    assert sorted(page.stem for page in PAGES.iterdir()) == HOOKS


def test_the_page_of_plugins_names_every_hook() -> None:
    text = (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text()
    assert set(re.findall(r"/hooks/(\w+)\.md\)", text)) == set(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_page(hook: str) -> None:
    """What each page must hold."""
    text = (PAGES / f"{hook}.md").read_text()
    assert text.startswith(f"# {hook}\n")
    for word in ("**Called**", "**Gets**", "**Returns**", "**Failure.**", "**Configuration.**"):
        assert word in text
    assert len(fences(hook, "python")) == 1
    assert len(fences(hook, "toml")) == 1
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert all((PAGES / target).is_file() for target in targets)


@pytest.mark.parametrize("hook", HOOKS)
def test_signature(hook: str) -> None:
    """The page's first block names the arguments the hook really has."""
    (shown,) = re.findall(rf"^```\n{hook}\((.*?)\) -> ", (PAGES / f"{hook}.md").read_text(), re.M)
    code = getattr(hookspecs, hook).__code__
    assert tuple(filter(None, shown.split(", "))) == code.co_varnames[: code.co_argcount]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_example_has_a_test(hook: str) -> None:
    assert callable(globals().get(f"test_{hook}"))


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test(hook: str) -> None:
    """Some plugin in the tests of plugins implements it."""
    used = [
        file.name
        for file in (ROOT / "tests" / "plugins").rglob("*.py")
        if re.search(rf"\b{hook}\b", file.read_text())
    ]
    assert used


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
    message["request"]["type"] = "capacity"
    message["request"]["tags"] = ["licensed"]
    assert ask(message) == plain(message)
    assert result(plain(message))["count"] > 0
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


def test_steward_diagnose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A battery to be replaced is a finding; the program's failure is none."""
    (settings,), (source,) = (fences("steward_diagnose", kind) for kind in ("toml", "python"))
    (tmp_path / "acme_raid.py").write_text(source)
    (tmp_path / "steward.toml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = load_config(str(tmp_path / "steward.toml"))
    assert config.section(Diagnose).load == ("acme_raid",)
    config = config._replace(plugins=config.plugins._replace(load=config.section(Diagnose).load))
    plugins = Plugins(config)
    assert plugins.hooks("acme_raid") == ["steward_diagnose"]
    (implementation,) = plugins.implementations("steward_diagnose")

    def results(**recorded: Any) -> list[CheckResult]:
        machine = RecordedMachine(tmp_path, **recorded)
        return list(call(implementation, 10, machine=machine))

    good, worn = (
        {"id": number, "state": state, "serial": f"BBU-{number}"}
        for number, state in enumerate(("good", "replace"))
    )
    output = json.dumps({"batteries": [good, worn]})
    try:
        assert results() == [NotApplicable("acme_raid", "there is no acme-raid")]
        assert results(commands={"acme-raid --json": {"output": output}}) == [
            Finding("acme_raid:battery0", "Ok"),
            Finding("acme_raid:battery1", "live-repair", "order-battery", {"serial": "BBU-1"}),
        ]
        failed = {"status": 5, "output": output}
        assert results(commands={"acme-raid --json": failed}) == [
            Unknown("acme_raid", "acme-raid failed: 5")
        ]
    finally:
        del sys.modules["acme_raid"]


def test_steward_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes with the tag are drained and no more; the built-in repair has the others."""
    (settings,), (source,) = (fences("steward_plan", kind) for kind in ("toml", "python"))
    (tmp_path / "drain_only.py").write_text(source)
    (tmp_path / "steward.toml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = Plugins(load_config(str(tmp_path / "steward.toml")))
    assert plugins.hooks("drain_only") == ["steward_plan"]
    tagged, other = worlds.node("n1", tags=["drain-only"]), worlds.node("n2")
    on_them = [worlds.instance(name, f"n{k}", "n3") for k, name in enumerate("ab", 1)]
    now = worlds.world([tagged, other, worlds.node("n3")], on_them)

    def steps(about: Incident, at: World) -> list[str]:
        """The steps until the incident is over, and how it ends."""
        for one in plugins.implementations("steward_plan"):
            plans = call(one, 10, incident=about, world=at, context=Context())
            if plans is not None:
                break
        (plan,) = plans
        if not isinstance(plan, Task):
            return [plan.reason]
        return [plan.step, *steps(about, worlds.after(at, plan.jobs))]

    try:
        assert steps(worlds.incident("n1"), now) == ["drain", "n1 is drained, its instances stay"]
        whole = ["drain", "move", "final-role", "no instance is left on node n2"]
        assert steps(worlds.incident("n2"), now) == whole
        assert steps(worlds.incident("n1", "evacuate-failover"), now)[1] == "move"
    finally:
        del sys.modules["drain_only"]


def test_steward_incident_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a failed incident is one line in the system's log."""
    hook, lines = "steward_incident_changed", list[tuple[int, str]]()
    (settings,), (source,) = (fences(hook, kind) for kind in ("toml", "python"))
    (tmp_path / "failed_incidents.py").write_text(source)
    (tmp_path / "steward.toml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(syslog, "syslog", lambda *line: lines.append(line))
    plugins = Plugins(load_config(str(tmp_path / "steward.toml")))
    assert plugins.hooks("failed_incidents") == [hook]
    implementation = plugins.implementation("failed_incidents", hook)
    failed = worlds.incident("n1")._replace(status="failed")
    try:
        for before, after in ((None, worlds.incident("n1")), (failed, None), (None, failed)):
            change = {"before": before, "after": after, "event": "e", "reason": "no disk"}
            call(implementation, 10, **change)
    finally:
        del sys.modules["failed_incidents"]
    assert lines == [(syslog.LOG_ERR, f"repair of {failed.node_name} failed: no disk")]
