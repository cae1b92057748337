"""The built-in actions, and plugins that raise, hang or return something else."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import worlds

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.filters.actions.calling import Actions
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.model.filter_action import (
    Facts,
    Hold,
    Reject,
    Release,
    Verdict,
    approved_jobs,
)

if TYPE_CHECKING:
    from sites import Site

#: A Wednesday, 12:00 UTC.
NOW = Facts(worlds.NOW, nodes={worlds.uuid_of("n1"): "n1"})
JOB = Job(7, opcodes=({"OP_ID": "OP_INSTANCE_MIGRATE"},))
ILL = worlds.incident("n1")

ROGUE = """
import os, time
from ganeti_steward.core import hookimpl
from ganeti_steward.plugins.model.filter_action import Release

@hookimpl
def steward_filter_action(action, arguments, job, facts):
    if action in ("WINDOW", "ROGUE"):
        return {body}
"""


def verdict(action: str, arguments: str = "", job: Job = JOB, facts: Facts = NOW) -> Verdict:
    with Actions(Config()) as actions:
        return actions(action, arguments, job, facts)


def shown(found: Verdict) -> tuple[type, str]:
    return type(found), found.reason


@pytest.mark.parametrize(
    ("arguments", "hours", "kind"),
    [
        ("09:00-17:00", 0, Release),
        ("Wed 09:00-17:00", 0, Release),
        ("Thu 09:00-17:00", 0, Hold),
        ("Thu 09:00-17:00, 11:00-13:00", 0, Release),
        ("22:00-06:00", 0, Hold),
        ("Mon-Wed 22:00-06:00", 17, Release),
        ("12:00-13:00", 1, Hold),
        ("", 0, Hold),
        ("12:00", 0, Hold),
        ("11:00-13:00,", 0, Hold),
    ],
)
def test_window(arguments: str, hours: int, kind: type) -> None:
    at = NOW._replace(now=NOW.now + hours * 3600 * 10**9)
    assert type(verdict("WINDOW", arguments, facts=at)) is kind


def test_a_window_is_in_local_time() -> None:
    facts = NOW._replace(utc_offset=int(timedelta(hours=2).total_seconds()))
    assert shown(verdict("WINDOW", "14:00-15:00", facts=facts)) == (
        Release,
        "Wed 14:00 is in 14:00-15:00",
    )
    assert shown(verdict("WINDOW", "12:00-13:00", facts=facts)) == (
        Hold,
        "Wed 14:00 is not in 12:00-13:00",
    )


def test_after_incident() -> None:
    ill = NOW._replace(incidents=(ILL,))
    for name in ("n1", worlds.uuid_of("n1")):
        assert shown(verdict("AFTER_INCIDENT", name)) == (Release, "n1 has no active incident")
        assert shown(verdict("AFTER_INCIDENT", name, facts=ill)) == (
            Hold,
            f"n1 has the active incident {ILL.uuid}",
        )
    over = NOW._replace(incidents=(ILL._replace(status="completed"),))
    assert isinstance(verdict("AFTER_INCIDENT", "n1", facts=over), Release)
    assert shown(verdict("AFTER_INCIDENT", "n2")) == (Hold, "the cluster has no node 'n2'")
    assert isinstance(verdict("AFTER_INCIDENT"), Hold)


def test_incidents_that_cannot_be_read() -> None:
    facts = NOW._replace(unreadable=frozenset({worlds.uuid_of("n1")}))
    assert isinstance(verdict("AFTER_INCIDENT", "n1", facts=facts), Hold)
    others = NOW._replace(unreadable=frozenset({worlds.uuid_of("n2")}))
    assert isinstance(verdict("AFTER_INCIDENT", "n1", facts=others), Release)


def test_approve_exactly_one_job() -> None:
    facts = NOW._replace(approved=approved_jobs(frozenset({"maintd:approve:7", "x:8"})))
    assert isinstance(verdict("APPROVE", facts=facts), Release)
    for number in (8, 70, 77):
        assert isinstance(verdict("APPROVE", job=JOB._replace(number=number), facts=facts), Hold)
    assert isinstance(verdict("APPROVE", "7", facts=facts), Hold)


@pytest.mark.parametrize(
    "tags", [["maintd:approve:"], ["maintd:approve:7x"], ["maintd:approve:-7"], ["7"]]
)
def test_tags_that_approve_nothing(tags: list[str]) -> None:
    assert approved_jobs(frozenset(tags)) == frozenset()


def test_a_job_that_approves_is_not_held() -> None:
    approving = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["maintd:approve:7"]}
    assert isinstance(verdict("APPROVE", job=Job(8, opcodes=(approving,))), Release)
    for other in (
        {**approving, "kind": "node"},
        {**approving, "tags": ["maintd:approve:7", "more"]},
        {**approving, "OP_ID": "OP_TAGS_DEL"},
    ):
        job = Job(8, opcodes=(approving, other))
        assert isinstance(verdict("APPROVE", job=job), Hold)


def test_actions_of_ganeti() -> None:
    assert verdict("ACCEPT") == Release("the action is ACCEPT", final=True)
    assert isinstance(verdict("CONTINUE"), Release)
    assert isinstance(verdict("PAUSE"), Hold)
    assert isinstance(verdict("REJECT"), Reject)
    two = NOW._replace(occupied=2)
    assert isinstance(verdict("RATE_LIMIT", "2", facts=two), Hold)
    assert verdict("RATE_LIMIT", "3", facts=two) == Release(
        "2 of at most 3 jobs have started", True
    )


def test_an_action_that_no_plugin_knows() -> None:
    assert shown(verdict("NOSUCH")) == (
        Hold,
        "no plugin knows the action 'NOSUCH'; its plugin must be in [plugins] load of the "
        "master, which has no plugin",
    )


# -- plugins that are not built in


def with_plugin(site: Site, body: str, *, limit: float = 20) -> Actions:
    site.plugin("rogue", ROGUE.format(body=body))
    site.configure("rogue", limit=limit)
    return Actions(load_config(str(site.config_file)))


def test_a_plugin(site: Site) -> None:
    with with_plugin(site, "Release(f'{arguments} {job.number}')") as actions:
        assert shown(actions("ROGUE", "a b", JOB, NOW)) == (Release, "a b 7")
        assert "which has rogue" in actions("OTHER", "", JOB, NOW).reason
        assert isinstance(actions("WINDOW", "00:00-00:01", JOB, NOW), Hold)


def test_a_plugin_that_changes_its_arguments_does_not_decide_for_others(site: Site) -> None:
    change = "job.opcodes[0].update(OP_ID='OP_CHANGED'), facts.nodes.clear()"
    site.plugin("change", ROGUE.format(body=f"None if ({change}) else None"))
    site.plugin("rogue", ROGUE.format(body="Release(f'{job.opcodes[0]} {len(facts.nodes)}')"))
    site.configure("change", "rogue", limit=20)
    job = JOB._replace(opcodes=({"OP_ID": "OP_TEST_DELAY"},))
    with Actions(load_config(str(site.config_file))) as actions:
        found = actions("ROGUE", "", job, NOW)
    assert found.reason == "{'OP_ID': 'OP_TEST_DELAY'} " + str(len(NOW.nodes))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("1 / 0", "plugin rogue: failed: ZeroDivisionError: division by zero"),
        ("True", "plugin rogue: gave a wrong value: one of Hold, Release, Reject is expected, "),
        ("Release('')", "plugin rogue: the reason of a verdict is '', not a text"),
        (
            "Release('x', final=1)",
            "plugin rogue: gave a wrong value: key 'final': true or false is expected",
        ),
        ("os._exit(0)", "plugin rogue: its process "),
        ("time.sleep(60)", "plugin rogue: "),
    ],
)
def test_a_faulty_plugin_holds_and_is_named(site: Site, body: str, sentence: str) -> None:
    limit = 0.5 if "sleep" in body else 20
    with with_plugin(site, body, limit=limit) as actions:
        found = actions("ROGUE", "", JOB, NOW)
        assert isinstance(found, Hold)
        assert found.reason.startswith(sentence)
        # Built-in actions are not touched by it.
        assert isinstance(actions("WINDOW", "00:00-24:00", JOB, NOW), Release)


def test_a_plugin_that_hangs_delays_a_round_three_times_at_most(site: Site) -> None:
    with with_plugin(site, "time.sleep(60)", limit=0.5) as actions:
        began = time.monotonic()
        found = [actions("ROGUE", "", JOB._replace(number=one), NOW) for one in range(1000)]
    assert time.monotonic() - began < 20
    assert {type(one) for one in found} == {Hold}
