"""Plugins of routine work are called one by one; a faulty one is named, and the others go on."""

from __future__ import annotations

import os
from textwrap import indent
from typing import TYPE_CHECKING

import pytest
from worlds import instance, node, world

from ganeti_steward.core.config.load import load_config
from ganeti_steward.plugins.maintenance.repairs.planner import PluginRoutine
from ganeti_steward.plugins.model.task import Task, Wait

if TYPE_CHECKING:
    from sites import Site

IMPORTS = """
import os
from ganeti_steward.core import hookimpl
from ganeti_steward.plugins.model.task import Done, Task, Wait
from ganeti_steward.allocators.jobs.operations import migrate

def task(*nodes, jobs=None, **fields):
    jobs = [[migrate("a")]] if jobs is None else jobs
    return Task("move", frozenset(nodes), frozenset({"a"}), "move it", jobs, **fields)

@hookimpl
def steward_routine(world, context):
"""
NOW = world([node("n1"), node("n2")], [instance("a", "n1", "n2")])


def rogue(site: Site, body: str) -> PluginRoutine:
    """Its plugin does this."""
    site.plugin("rogue", IMPORTS + indent(body, "    ") + "\n")
    site.configure("rogue", more='[maintd]\nroutine = ["rogue"]\nplan-time-limit = 20\n')
    return PluginRoutine(load_config(str(site.config_file)))


def test_a_plugin_of_the_site(site: Site) -> None:
    """It sees the world and the site rules, and runs in a process of its own."""
    body = (
        "rules = context.site_rules.bans(world.cluster, world.cluster.instances[0])\n"
        "return [task('n1', 'n2', subject='a'), Wait(f'{len(rules)} {os.getpid()}', 'b')]"
    )
    planned, waits = rogue(site, body)("rogue", NOW)
    assert isinstance(planned, Task)
    assert (planned.subject, planned.nodes) == ("a", {"n1", "n2"})
    assert isinstance(waits, Wait)
    assert waits.reason.startswith("0 ")
    assert waits.reason != f"0 {os.getpid()}"


def test_nothing_to_do(site: Site) -> None:
    assert rogue(site, "return None")("rogue", NOW) == ()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return 5", "gave a wrong value: a list is expected, found the number 5"),
        ("return Wait('x')", "gave a wrong value: a list is expected, found a Wait"),
        ("return [Done('x')]", "one of Task, Wait is expected, found a Done"),
        ("return [Wait('')]", "gave '' as a reason, not a text"),
        ("return [Wait('x', 5)]", "key 'subject': a text is expected, found the number 5"),
        ("return [task('n9')]", "its task names nodes that do not exist: 'n9'"),
        ("return [task('n1', jobs=[])]", "its task needs jobs, and no command"),
        ("return [task('n1', jobs=[[5]])]", "key 'jobs': a mapping is expected, found the number"),
        ("raise ValueError('no')", "ValueError: no"),
        ("os._exit(3)", "its process ended with exit status 3"),
    ],
)
def test_faults(body: str, fault: str, site: Site) -> None:
    (found,) = rogue(site, body)("rogue", NOW)
    assert isinstance(found, Wait)
    assert found.reason.startswith("plugin rogue")
    assert fault in found.reason


def test_a_plugin_without_the_hook(site: Site) -> None:
    site.plugin("rogue", IMPORTS.replace("steward_routine", "steward_plan") + "    return None\n")
    site.configure("rogue", more='[maintd]\nroutine = ["rogue"]\n')
    (found,) = PluginRoutine(load_config(str(site.config_file)))("rogue", NOW)
    assert "does not implement steward_routine" in found.reason
