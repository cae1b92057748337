"""Plugins are called one after the other; a faulty one is named, and the round goes on."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import pytest
from worlds import incident, instance, node, world

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.config.load import load_config
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner
from ganeti_steward.plugins.model.task import Done, Failed, Task, Wait

if TYPE_CHECKING:
    from sites import Site

IMPORTS = """
import os, time
from ganeti_steward.core import hookimpl
from ganeti_steward.plugins.model.task import Done, Failed, Task, Wait
from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.plugins.model.operations import set_role
from ganeti_steward.core.model.site_rules import ROLES, Ban

def task(*nodes, step="drain", instances=(), **fields):
    fields = fields or {"jobs": [[set_role("n1", "drained")]]}
    return Task(step, frozenset(nodes), frozenset(instances), "drain it", **fields)

@hookimpl
def steward_plan(incident, world):
"""
NOW = world(
    [node("n1"), node("n2"), node("n3"), node("n4", drained=True)],
    [instance("a", "n1", "n2"), instance("b", "n3")],
    reserved_nodes=frozenset({"n3"}),
    reserved_instances=frozenset({"b"}),
)
ILL = incident("n1")


def planner(site: Site, *load: str, limit: float = 20) -> PluginPlanner:
    more = f"[maintd]\nplan-time-limit = {limit}\n"
    site.configure(*load, more=more)
    return PluginPlanner(load_config(str(site.config_file)))


def rogue(site: Site, body: str, *, limit: float = 20) -> PluginPlanner:
    """Its plugin does this for the node n1, and does not handle other incidents."""
    condition = "    if incident.node_name != 'n1':\n        return None\n"
    site.plugin("rogue", IMPORTS + condition + indent(body, "    ") + "\n")
    return planner(site, "rogue", limit=limit)


def one(planned: list[PluginPlan]) -> PluginPlan:
    (found,) = planned
    return found


# -- the order


def test_failing_volumes_come_before_the_command_of_a_live_repair(site: Site) -> None:
    site.configure(more="[maintd]\nrepair-storage = true\n")
    plan = PluginPlanner(load_config(str(site.config_file)))
    details = {"physical_volumes": ["/dev/sda"]}
    original = canonical({"status": "live-repair", "details": details})
    found = one(plan(incident("n2", "live-repair", original=original), NOW))
    assert found == PluginPlan(
        "repair-storage",
        Wait("the storage of node n2 is not known: it was not queried yet"),
    )
    command = one(plan(incident("n2", "live-repair", command="fix"), NOW))
    assert command.plugin == "live-repair"


def test_built_in_plugins_are_called_here(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    monkeypatch.setattr("os.fork", refuse)
    plan = planner(site)
    assert [(p.plugin, type(p.plan)) for p in plan(ILL, NOW)] == [("evacuate", Task)]
    repair = one(plan(incident("n2", "live-repair"), NOW))
    assert (repair.plugin, type(repair.plan)) == ("live-repair", Done)


def test_an_action_without_a_plugin(site: Site) -> None:
    strange = incident("n1", "polish")
    assert planner(site)(strange, NOW) == [
        PluginPlan("", Wait("no plugin handles the action polish"))
    ]


def test_a_plugin_of_the_site_comes_first(site: Site) -> None:
    """Its own modules are found; what it does not handle is the built-in plugin's."""
    plan = rogue(site, "return [Wait(f'{incident.uuid} {len(world.instances)} {os.getpid()}')]")
    mine = one(plan(ILL, NOW))
    assert mine.plugin == "rogue"
    uuid, number, pid = mine.plan.reason.split()
    assert (uuid, number) == (ILL.uuid, "2")
    assert int(pid) != os.getpid()
    assert one(plan(incident("n2"), NOW)).plugin == "evacuate"


def test_settings_reach_the_built_in_plugin_in_the_child(site: Site) -> None:
    plan = rogue(site, "return None")
    assert (
        one(plan(incident("n4"), NOW)).plan.reason
        == "set n4 offline: nothing is left on it that can be moved"
    )
    site.configure("rogue", more='[maintd]\nfinal-role = "drained"\n')
    plan = PluginPlanner(load_config(str(site.config_file)))
    assert one(plan(incident("n4"), NOW)).plan.reason == "no instance is left on node n4"


def test_site_rules_hold_for_moves(site: Site) -> None:
    body = """
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.site_rules import ROLES, Ban
        @hookimpl
        def steward_constrain(request, instance):
            assert request.instances == ("a",) and request.mode == "all"
            return [Ban("n3", role, "colour", "wrong colour") for role in ROLES]
        """
    site.plugin("rules", body)
    plan = planner(site, "rules")
    nodes = [node("n1", drained=True), node("n2"), node("n3"), node("n4")]
    moved = one(plan(ILL, world(nodes, [instance("a", "n1", template="ext")]))).plan
    assert isinstance(moved, Task)
    assert "n3" not in moved.nodes
    stuck = one(plan(ILL, world([*nodes[:1], nodes[2]], [instance("a", "n1", template="ext")])))
    assert isinstance(stuck.plan, Failed)
    assert stuck.plan.unmovable == (("a", "0/1 nodes fit: 1 colour"),)


# -- faults


@pytest.fixture(scope="module")
def _threads() -> Iterator[None]:
    """As in the daemon, there are other threads."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield
    end.set()
    thread.join()


NO_PLAN = "gave a wrong value: one of Task, Done, Failed, Wait is expected, found "
FAULTS = {
    "raise ValueError('no idea')": "failed: ValueError: no idea",
    "os._exit(3)": "its process ended with exit status 3",
    "import ctypes; ctypes.string_at(0)": "its process was ended by SIGSEGV",
    "raise SystemExit(1)": "failed: SystemExit: 1",
    "return Done('all')": "gave a wrong value: a list is expected, found a Done",
    "return []": "steward_plan gave an empty list",
    "return ['done']": f"{NO_PLAN}the text 'done'",
    "return [Done('')]": "gave '' as a reason, not a text",
    r"return [Done('\udcff')]": r"gave a wrong value: key 'reason': the text '\udcff' cannot be",
    "return [Done('a'), Wait('b')]": "gave Done together with something else",
    "return [Failed('a', ('b',))]": (
        "gave a wrong value: key 'unmovable': a list is expected, found the text 'b'"
    ),
    "return [task('n2')]": "its task leaves out n1, the node of the incident",
    "return [task('n1', 'n9')]": "its task names nodes that do not exist: 'n9'",
    "return [task('n1', instances=['z'])]": "its task names instances that do not exist: 'z'",
    "return [task('n1', 'n3')]": "its task uses what another task uses: n3",
    "return [task('n1', instances=['b'])]": "its task uses what another task uses: b",
    "return [task('n1', 'n2'), task('n1', 'n2')]": "two of its tasks share n2",
    "return [task('n1', instances=['a']), task('n1', instances=['a'])]": (
        "two of its tasks share a"
    ),
    "return [task('n1')._replace(each=('a', 'b'))]": (
        "its task does not name one of its instances for each of its jobs"
    ),
    "return [task('n1', jobs=[])]": "its task needs either jobs or a command",
    "return [task('n1', command='../x')]": "its command '../x' is not a command name",
    "return [task('n1', jobs=[[]])]": "gave [] as a job, not a list of operations",
    "return [task('n1', jobs=[[{'op': 1}]])]": (
        "gave {'op': 1} as an operation, not an object with OP_ID"
    ),
    "return [task('n1', jobs=[[{'OP_ID': 'OP_X', 'a': float('nan')}]])]": (
        "gave a wrong value: key 'jobs': key 'a': JSON is expected, found the number nan"
    ),
    "return [task('n1')._replace(step='tag')]": "the step tag is the daemon's own, after a repair",
    "return [task('n1')._replace(step='open-volume')]": (
        "the step open-volume is the daemon's own, after a repair"
    ),
    "return [task('n1')._replace(nodes=['n1'])]": (
        "gave a wrong value: key 'nodes': a set is expected, found a list"
    ),
    "return [world]": f"{NO_PLAN}a World",
}


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("body", FAULTS)
def test_a_fault_is_named_and_others_are_planned(site: Site, body: str) -> None:
    plan = rogue(site, body)
    found = one(plan(ILL, NOW))
    assert found.plugin == "rogue"
    assert isinstance(found.plan, Wait)
    assert found.plan.reason.startswith(f"plugin rogue: {FAULTS[body]}")
    assert isinstance(one(plan(incident("n2"), NOW)).plan, Task)


@pytest.mark.parametrize(
    "body", ["while True: pass", "import ctypes; ctypes.PyDLL(None).sleep(3600)"]
)
def test_an_endless_plugin_is_stopped(site: Site, body: str) -> None:
    plan = rogue(site, body, limit=0.5)
    started = time.monotonic()
    assert plan(ILL, NOW) == [
        PluginPlan("rogue", Wait("plugin rogue: took longer than its 0.5 s and was stopped"))
    ]
    assert time.monotonic() - started < 10
    assert one(plan(incident("n2"), NOW)).plugin == "evacuate"


def test_a_plugin_that_cannot_be_loaded(site: Site) -> None:
    plan = planner(site, "nosuch.repairs")
    for name in ("n1", "n2"):
        found = one(plan(incident(name), NOW))
        assert isinstance(found.plan, Wait)
        assert found.plan.reason == (
            "plugin nosuch.repairs: is neither a module nor an entry point of the group "
            "ganeti_steward"
        )


def test_descriptors_and_processes_are_given_back(site: Site) -> None:
    plan = rogue(site, "return [Wait(str(os.getpid()))]")
    pid = one(plan(ILL, NOW)).plan.reason
    before = os.listdir("/proc/self/fd")
    again = one(plan(ILL, NOW)).plan.reason
    assert os.listdir("/proc/self/fd") == before
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{again}").exists()


def test_the_child_is_no_copy_of_the_daemon(site: Site) -> None:
    """Nothing the daemon has open or imported is there: no socket, no lock of a thread."""
    sys.modules["rogue_marker"] = sys
    body = (
        "import json, sys\n"
        "paths = [os.path.realpath(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')]\n"
        "return [Wait(json.dumps(['rogue_marker' in sys.modules, *paths]))]"
    )
    held = site.path / "held"
    try:
        with held.open("w") as file:
            os.set_inheritable(file.fileno(), True)
            marked, *paths = json.loads(one(rogue(site, body)(ILL, NOW)).plan.reason)
    finally:
        del sys.modules["rogue_marker"]
    assert not marked
    assert str(held) not in paths
