"""The turn of the master: which candidate is made the master, once, and what forbids it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from asserting import some
from maintained import EVACUATE, SECOND
from upkept import Upkept, waits

from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    NOT_KNOWN,
    REFUSED,
    UNCERTAIN,
    CommandResult,
)
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, PAUSE_TAG, Incident
from ganeti_steward.plugins.model.task import MASTER_FAILOVER
from ganeti_steward.plugins.model.world import Reported, Succession, World

CANDIDATES: Final = ("node2", "node3")
BY_HAND: Final = "is the master: it cannot be drained before another node is the master"


class Handed(Upkept):
    """node1 is the master, node2 and node3 are candidates whose agents permit it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, dict[str, Any]] = {
            name: {"takes_over": True, "ahead": 0} for name in CANDIDATES
        }
        for name in CANDIDATES:
            self.change(name, master_candidate=True, primary_ip=f"192.0.2.{name[-1]}")
        self.succession: Succession | None = Succession(frozenset({"192.0.2.2", "192.0.2.3"}))

    def world(self) -> World:
        found = super().world()
        seen = {
            uuid: one._replace(**self.seen.get(self.nodes[uuid].name, {}))
            if isinstance(one, Reported)
            else one
            for uuid, one in found.observations.items()
        }
        return found._replace(observations=seen, succession=self.succession)

    def wanted(self) -> Incident:
        """The maintenance of the master, with permission to hand its role over."""
        made = self.request("node1")
        assert made.maintenance
        made = made._replace(maintenance=made.maintenance._replace(with_master=True))
        self.records[made.uuid] = made
        return made

    @property
    def requested(self) -> list[str]:
        """The nodes that were requested to become the master."""
        return [
            *(
                name
                for decision in self.decisions
                for one in decision.started
                if one.task.step == MASTER_FAILOVER
                for name in one.task.nodes - {"node1"}
            )
        ]

    def answered(self, text: str = "exit status 0", state: str = "ended") -> None:
        """How the only request that goes on ends."""
        (submission,) = set(self.commands) - set(self.results)
        self.results[submission] = CommandResult(text == "exit status 0", text, state)


def test_a_candidate_is_made_the_master_and_the_maintenance_goes_on() -> None:
    cluster = Handed()
    found = cluster.wanted()
    cluster.round()
    assert cluster.requested == ["node2"]
    record = cluster.records[found.uuid]
    assert [one.step for one in record.open] == [MASTER_FAILOVER]
    assert not record.state.begun
    cluster.change("node1", master=False)
    cluster.change("node2", master=True)
    cluster.answered()
    cluster.run()
    assert "node1 is ready" in waits(cluster, found)
    assert cluster.requested == ["node2"]


def test_only_with_the_option() -> None:
    cluster = Handed()
    found = cluster.request("node1")
    cluster.run()
    assert BY_HAND in waits(cluster, found)
    assert cluster.requested == []


def test_only_where_an_agent_permits_it() -> None:
    """The sentence is the one that it was before, word by word."""
    cluster = Handed()
    cluster.seen.clear()
    found = cluster.wanted()
    cluster.run()
    assert waits(cluster, found) == (
        f"node node1 {BY_HAND} (gnt-cluster master-failover on node2, about which nothing is "
        "requested)"
    )
    assert cluster.requested == []


def _silent(cluster: Handed) -> None:
    cluster.silence("node2")


def _old(cluster: Handed) -> None:
    cluster.polling = False
    cluster.wait(cluster.config.report_max_age + 1)
    for name in ("node1", "node3", "node4", "node5"):
        cluster.booted(name, "b")


def _incident(cluster: Handed) -> None:
    cluster.report("node2", EVACUATE)


def _maintained(cluster: Handed) -> None:
    cluster.request("node2")


#: Why node2 is not made the master -> words of the sentence; node3 is then.
UNFIT: Final[dict[str, Callable[[Handed], None]]] = {
    "is not in service": lambda cluster: cluster.change("node2", drained=True),
    "is offline": lambda cluster: cluster.change("node2", offline=True),
    "does not answer": lambda cluster: cluster.change("node2", missing=("total_memory",)),
    "is not master_capable": lambda cluster: cluster.change("node2", master_capable=False),
    "has the tag maintd:off": lambda cluster: cluster.tag("node2", OPT_OUT_TAG),
    "has incident": _maintained,
    "has not reported recently": _old,
    "has a clock that differs by 31 s": lambda cluster: cluster.seen["node2"].update(ahead=31),
    "has a clock that differs by -31 s": lambda cluster: cluster.seen["node2"].update(ahead=-31),
    "has a clock that differs by an unknown time": lambda cluster: cluster.seen["node2"].update(
        ahead=None
    ),
    "is not known to have the latest": lambda cluster: setattr(
        cluster, "succession", Succession(frozenset({"192.0.2.3"}))
    ),
    "is no candidate": lambda cluster: cluster.change("node2", master_candidate=False),
    "is silent": _silent,
    "is ill": _incident,
}


@pytest.mark.parametrize("why", UNFIT)
def test_a_candidate_that_is_not_fit(why: str) -> None:
    """It is never made the master, whatever becomes of the others."""
    cluster = Handed()
    UNFIT[why](cluster)
    cluster.wanted()
    for _ in range(3):
        cluster.round()
    assert "node2" not in cluster.requested


@pytest.mark.parametrize(
    "why",
    [
        "is not in service",
        "does not answer",
        "is not master_capable",
        "has the tag maintd:off",
        "has not reported recently",
        "has a clock that differs by 31 s",
        "has a clock that differs by an unknown time",
        "is not known to have the latest",
    ],
)
def test_the_sentence_names_what_is_wrong(why: str) -> None:
    cluster = Handed()
    cluster.seen.pop("node3")
    UNFIT[why](cluster)
    found = cluster.wanted()
    cluster.round()
    assert BY_HAND in waits(cluster, found)
    assert f"node2 {why}" in waits(cluster, found)
    assert cluster.requested == []


@pytest.mark.parametrize(
    ("succession", "why"),
    [
        (None, "which jobs there are is not known"),
        (Succession(frozenset({"192.0.2.2"}), (7, 8)), "job 7, job 8"),
    ],
)
def test_no_job_is_cut(succession: Succession | None, why: str) -> None:
    """Neither those of the daemon nor those of others: unknown is not none."""
    cluster = Handed()
    cluster.succession = succession
    found = cluster.wanted()
    cluster.run()
    assert f"no node is made the master before all jobs have ended: {why}" in waits(cluster, found)
    assert cluster.requested == []


def test_nothing_is_begun_meanwhile() -> None:
    """For five minutes at most, if it is not known what became of it."""
    cluster = Handed()
    cluster.config = cluster.config._replace(most_nodes=2)
    cluster.wanted()
    other = cluster.request("node4")
    for _ in range(3):
        cluster.round()
    assert cluster.requested == ["node2"]
    assert "node2 was requested to become the master, and has not answered" in waits(cluster, other)
    cluster.wait(301)
    cluster.round()
    assert [one.task.step for one in some(cluster.decisions[-1].started)] == ["drain"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("exit status 1: no votes", "ended"),
        ("the agent was restarted meanwhile", UNCERTAIN),
        ("exit status 0", "ended"),
    ],
)
def test_a_failure_is_for_a_person(text: str, state: str) -> None:
    """No second node is requested, and the same one not again; also if the command has succeeded
    and the node is the master all the same."""
    cluster = Handed()
    found = cluster.wanted()
    cluster.round()
    cluster.answered(text, state)
    for _ in range(5):
        cluster.round()
        cluster.wait(4000)
    assert cluster.requested == ["node2"]
    assert BY_HAND in waits(cluster, found)
    assert f"gnt-cluster master-failover on node2: {text}" in waits(cluster, found)


def test_no_answer_is_no_refusal() -> None:
    cluster = Handed()
    found = cluster.wanted()
    cluster.round()
    cluster.answered("no connection", NOT_KNOWN)
    cluster.round()
    assert "no connection" in waits(cluster, found)
    assert cluster.requested == ["node2"]


@pytest.mark.parametrize("state", [REFUSED, NEVER_CAME])
def test_after_a_definite_refusal_another_one_is_requested(state: str) -> None:
    """Each once, and then a person has to do it."""
    cluster = Handed()
    found = cluster.wanted()
    cluster.round()
    for _ in range(2):
        cluster.answered("not permitted", state)
        cluster.round()
        cluster.round()
    for _ in range(3):
        cluster.round()
    assert cluster.requested == ["node2", "node3"]
    assert BY_HAND in waits(cluster, found)
    assert cluster.records[found.uuid].maintenance is not None
    text = "node2 was not made the master when that was requested"
    assert text in waits(cluster, found)


def test_a_daemon_that_is_restarted_does_not_request_it_again() -> None:
    """The record came first; the agent knows what became of the request."""
    cluster = Handed()
    cluster.wanted()
    cluster.round(crash="submitted")
    cluster.round()
    assert cluster.requested == ["node2"]


@pytest.mark.parametrize("what", ["pause", "window", "observe", "gate"])
def test_what_holds_a_maintenance_holds_it_too(what: str) -> None:
    cluster = Handed()
    if what == "pause":
        cluster.cluster_tags.add(f"{PAUSE_TAG}a-reason")
    elif what == "window":
        day = "Mon" if cluster.now // SECOND // 86400 % 7 != 4 else "Wed"
        cluster.config = cluster.config._replace(windows=(f"{day} 00:00-00:01",))
    elif what == "observe":
        cluster.config = cluster.config._replace(mode="observe")
    else:
        cluster.change("node5", missing=("total_memory",))
    cluster.wanted()
    for _ in range(3):
        cluster.round()
    assert what in cluster.held()
    assert cluster.requested == []
