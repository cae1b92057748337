"""Recorded moments are read back as they were, and faults in them are named."""

from __future__ import annotations

import json

import pytest
from worlds import NOW, incident, instance, node, uuid_of, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.sent import Sent
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.recording import MomentLines
from ganeti_steward.plugins.maintenance.daemon.replay import (
    Moment,
    continued,
    read_moments,
    replay,
)
from ganeti_steward.plugins.maintenance.engine.decision import (
    CommandResult,
    Inputs,
    Lasting,
    PluginPlan,
    Recent,
)
from ganeti_steward.plugins.model.incident import Submission
from ganeti_steward.plugins.model.orphan import OrphanJob
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Done, Failed, RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import Refused, Reported, Silent, World

SUBMISSION = Submission("s1", "move", ("n1", "n2"), ("i1",), NOW, jobs=(5, 6))
INCIDENT = incident("n1", command="fix", open=(SUBMISSION,), unmovable=(("i2", "no room"),))
WORLD = world(
    [node("n1", tags=["maintd:off"], drained=True), node("n2", master=True)],
    [instance("i1", "n1", "n2"), instance("i2", "n1", template="plain", tags=["a"])],
    [INCIDENT],
    {
        "n1": Reported(INCIDENT.original, "evacuate", "fix", NOW),
        "n2": Silent(NOW, "no answer"),
        "gone": Refused(NOW, "wrong key"),
    },
    cluster_tags=frozenset({"maintd:pause:disks"}),
    routine=(RoutineJob(7, "rebalance", "balance", "i1", ("n1", "n2"), ("i1",), 640, NOW),),
    orphans=(OrphanJob(15, "gone", "s9", ("n1",), ("i1",)),),
    tagged_jobs={3: JobState(3, "success")},
    load_reports={"n1": {"name": "cpu-avg-load", "data": {"cpu_total": 0.5}}},
)
INPUTS = Inputs(
    WORLD,
    {5: JobState(5, "success", results=(None, [1])), 6: JobState(6, "error", "no disk")},
    {"s2": CommandResult(True, "exit status 0")},
    {"s3": (), "s4": (8, 9)},
    {"s3": "disk full"},
    {"s5": "luxid has not answered yet"},
    last_job=15,
    utc_offset=3600,
    unreadable={"n": "rule u is no record"},
    calls_known=False,
    since={"rebalance": Lasting({"group g1": NOW}, {"group g1": {"0a 1": NOW}})},
    recent=Recent({"n 0a": NOW}, {"n live-repair": ((NOW - 5, "0a"), (NOW, "0b"))}),
)


def written(*moments: tuple[Inputs, Maintd]) -> str:
    lines = MomentLines()
    return b"".join(lines.line(*one) for one in moments).decode()


def facts(inputs: Inputs) -> list[object]:
    """Everything of the inputs in a form that can be compared."""
    cluster = inputs.world.cluster
    parts = (cluster.groups, cluster.nodes, cluster.instances, cluster.tags, cluster.hypervisors)
    return [parts, inputs.world._replace(cluster=None), inputs[1:]]  # type: ignore[arg-type]


def test_moments_are_read_back() -> None:
    later = INPUTS._replace(
        world=WORLD._replace(now=NOW + 1, incidents={}, observations={}), jobs={}
    )
    settings = Maintd(mode="act", windows=("Mon 08:00-10:00",))
    text = written((INPUTS, Maintd()), (later, settings))
    first, second = read_moments(text.splitlines())
    assert facts(first.inputs) == facts(INPUTS)
    assert facts(second.inputs) == facts(later)
    assert (first.settings, second.settings) == (Maintd(), settings)
    assert not first.continued
    assert not second.continued


def test_what_is_as_before_is_not_repeated() -> None:
    lines = written((INPUTS, Maintd()), (INPUTS, Maintd(mode="act"))).splitlines()
    second = json.loads(lines[1])
    assert second["configuration"] == {"mode": "act"}
    assert list(second["world"]) == ["incidents"]
    assert second["jobs"] == json.loads(lines[0])["jobs"]


def test_a_moment_without_incidents_continues() -> None:
    first = json.loads(written((INPUTS, Maintd())))
    del first["world"]["incidents"]
    (moment,) = read_moments([json.dumps(first)])
    assert moment.continued
    assert continued(moment, {INCIDENT.uuid: INCIDENT}).inputs.world.incidents == WORLD.incidents
    fixed = Moment(Maintd(), INPUTS, continued=False)
    assert continued(fixed, {}) is fixed


def test_what_was_sent_of_an_object_is_kept() -> None:
    sent = WORLD.cluster.nodes[0]._replace(sent=Sent({"primary_ip": "192.0.2.1"}))
    changed = WORLD._replace(cluster=WORLD.cluster.replace([sent]))
    (moment,) = read_moments([written((INPUTS._replace(world=changed), Maintd()))])
    assert moment.inputs.world.cluster.nodes[0].primary_ip == "192.0.2.1"


@pytest.mark.parametrize(
    "plan",
    [
        Task("move", frozenset("ab"), frozenset("c"), "why", [[{"OP_ID": "OP_X", "n": 1}]]),
        Done("why"),
        Failed("why", (("i1", "no room"),)),
        Wait("why"),
    ],
)
def test_plans_are_read_back(plan: Task | Done | Failed | Wait) -> None:
    planned = PluginPlan("evacuate", plan)
    read = from_json(PluginPlan, json.loads(json.dumps(to_json(PluginPlan, planned))))
    if isinstance(read.plan, Task):
        read = read._replace(plan=read.plan._replace(jobs=list(read.plan.jobs)))
    assert read == planned


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": 2}, "its format is 2, this program reads format 1"),
        ({"world": 1}, "an object with the object world is expected"),
        (
            {"jobs": {"x": {"number": 5, "status": "success"}}},
            "key 'jobs': key 'x' is not a whole number",
        ),
        ({"jobs": {"5": {}}}, "key 'jobs': key '5': key 'number' is missing"),
        (
            {"found": {"s1": [1, "2"]}},
            "key 'found': key 's1': a whole number is expected, found the text '2'",
        ),
        ({"extra": 1}, "key 'extra' is unknown"),
        ({"configuration": {"mode": "x"}}, "configuration.mode: "),
    ],
)
def test_faults_are_named(change: dict[str, object], text: str) -> None:
    data = json.loads(written((INPUTS, Maintd()))) | change
    with pytest.raises(StewardError) as caught:
        list(read_moments(["", json.dumps(data)]))
    assert str(caught.value).startswith(f"line 2: {text}")


def test_a_fault_deep_inside_is_named() -> None:
    data = json.loads(written((INPUTS, Maintd())))
    data["world"]["observations"][uuid_of("n2")]["kind"] = "x"
    kinds = "one of reported, silent, refused"
    fault = f"key 'observations': key '.*': key 'kind': {kinds} is expected, found the text 'x'"
    with pytest.raises(StewardError, match=f"line 1: key 'world': {fault}"):
        list(read_moments([json.dumps(data)]))


def test_routine_work_is_decided_again() -> None:
    """How long something has lasted is in the recording: no moment depends on those before."""
    settings = Maintd(mode="act", routine=("rebalance",))
    quiet = Inputs(
        world([node("n1"), node("n2")]), since={"rebalance": Lasting({"group g1": NOW - 5})}
    )

    def plan(plugin: str, seen: World) -> list[RoutinePlan]:
        return [Wait(f"{plugin} has waited since {NOW - seen.since['group g1']}", "group g1")]

    (moment,) = read_moments(written((quiet, settings)).splitlines())
    (found,) = replay([moment], lambda _: lambda *_: (), lambda _: plan)
    assert [one.sentence for one in found.decision.held] == ["rebalance has waited since 5"]
    assert found.decision.since == {"rebalance": Lasting({"group g1": NOW - 5})}
