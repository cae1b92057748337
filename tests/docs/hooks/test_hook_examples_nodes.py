"""The examples on the pages of the hooks about nodes do what the pages promise."""

from __future__ import annotations

import json
import sys
import syslog
from pathlib import Path
from typing import TYPE_CHECKING, Any

import worlds
from hook_pages import fences

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.hooks.calls import call
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.testing import RecordedMachine
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.filter_action import Facts, Hold, Release
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    import pytest


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
        waits = ["drain", "n1 is drained; an admin decides about a"]
        assert steps(worlds.incident("n1"), now) == waits
        empty = worlds.world([tagged, other, worlds.node("n3")], on_them[1:])
        assert steps(worlds.incident("n1"), empty) == ["drain", "n1 is drained and empty"]
        whole = ["drain", "move", "final-role", "no instance is left on node n2"]
        assert steps(worlds.incident("n2"), now) == whole
        assert steps(worlds.incident("n1", "evacuate-failover"), now)[1] == "move"
    finally:
        del sys.modules["drain_only"]


def test_steward_routine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is down for long enough is started; what has no tag is not."""
    hook = "steward_routine"
    (settings,), (source,) = (fences(hook, kind) for kind in ("toml", "python"))
    (tmp_path / "start_again.py").write_text(source)
    (tmp_path / "steward.toml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = load_config(str(tmp_path / "steward.toml"))
    plugins = Plugins(config, config.section(Maintd).routine)
    assert plugins.hooks("start_again") == [hook]
    made = [worlds.instance(name, "n1", "n2", tags=["start-again"]) for name in "abc"]
    made += [worlds.instance("d", "n1", "n2")]
    now = worlds.world([worlds.node("n1"), worlds.node("n2")], made)
    status = dict(zip("abcd", ("ERROR_down", "running", "ERROR_down", "ERROR_down"), strict=True))
    for name, word in status.items():
        now = worlds.with_instance(now, name, status=word)
    since = {"a": now.now - 300 * 10**9}
    seen = now._replace(since=since)
    try:
        given = call(plugins.implementation("start_again", hook), 10, world=seen)
    finally:
        del sys.modules["start_again"]
    assert [(one.reason, one.subject) for one in given] == [
        ("start a", "a"),
        ("c is down for 0 s", "c"),
    ]


def test_steward_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds above 200 instances that run."""
    hook = "steward_gate"
    (settings,), (source,) = (fences(hook, kind) for kind in ("toml", "python"))
    (tmp_path / "few_instances.py").write_text(source)
    (tmp_path / "steward.toml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    implementation = Plugins(load_config(str(tmp_path / "steward.toml"))).implementation(
        "few_instances", hook
    )
    try:
        found = [
            call(implementation, 10, world=worlds.world([worlds.node("n1")], instances))
            for instances in (
                [worlds.instance(f"i{number}", "n1") for number in range(many)]
                for many in (200, 201)
            )
        ]
    finally:
        del sys.modules["few_instances"]
    assert found == [None, "201 instances run, more than 200"]


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


def test_steward_filter_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Incidents of one node count once, those that have ended not at all."""
    hook = "steward_filter_action"
    (settings,), (source,) = (fences(hook, kind) for kind in ("toml", "python"))
    (tmp_path / "quiet_nodes.py").write_text(source)
    (tmp_path / "steward.toml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = Plugins(load_config(str(tmp_path / "steward.toml")))
    assert plugins.hooks("quiet_nodes") == [hook]
    implementation = plugins.implementation("quiet_nodes", hook)
    ended = worlds.incident("n3")._replace(status="completed")
    facts = Facts(0, incidents=(*map(worlds.incident, ("n1", "n1", "n2")), ended))

    def verdict(action: str, arguments: str) -> Any:
        given = {"action": action, "arguments": arguments, "job": None, "facts": facts}
        return call(implementation, 10, **given)

    try:
        one, two = (verdict("AT_MOST_INCIDENTS", number) for number in "12")
        other = verdict("OTHER", "1")
    finally:
        del sys.modules["quiet_nodes"]
    assert (type(one), type(two), other) == (Hold, Release, None)
    assert one.reason == two.reason == "2 nodes have an active incident"
