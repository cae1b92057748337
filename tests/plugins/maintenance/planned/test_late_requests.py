"""The deadline of a request: no maintenance begins that is expected to end after it."""

from __future__ import annotations

import pytest
from maintained import SECOND
from upkept import Upkept, waits

from ganeti_steward.plugins.maintenance.edges.status import wait_line
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.works import misses_deadline


def requested(cluster: Upkept, name: str, left: float, expected: int) -> Incident:
    """A request whose deadline is ``left`` s from now."""
    found = cluster.request(name)
    assert found.maintenance
    request = found.maintenance._replace(
        deadline=cluster.now + int(left * SECOND), expected=expected
    )
    cluster.records[found.uuid] = found._replace(maintenance=request)
    return found


def begun(cluster: Upkept, incident: Incident) -> bool:
    return cluster.records[incident.uuid].state.begun


def test_a_node_that_would_be_late_waits_for_a_person() -> None:
    """All others begin; what waits names its deadline, and what a person can do."""
    cluster = Upkept()
    late = requested(cluster, "node2", 900, 1200)
    other = cluster.request("node4")
    for _ in range(3):
        cluster.round()
    assert (begun(cluster, late), begun(cluster, other)) == (False, True)
    (held,) = (one for one in cluster.decisions[0].held if one.brake == "deadline")
    assert held.sentence == (
        "the maintenance of node2 takes about 20 minutes and would end after its deadline, "
        "2023-11-14 22:28+00:00: it does not begin; gnt-steward maintenance cancel node2, then "
        "request it again with another --by"
    )
    assert f"what helps: gnt-steward maintenance cancel {late.uuid}, then" in wait_line(held)
    assert not cluster.nodes["uuid-node2"].drained


def test_a_node_that_has_begun_goes_on_to_its_end() -> None:
    """However late it becomes."""
    cluster = Upkept()
    found = requested(cluster, "node2", 900, 600)
    cluster.run()
    assert "node2 is ready" in waits(cluster, found)
    cluster.wait(7200)
    cluster.done(found)
    cluster.run()
    assert cluster.records[found.uuid].note == "the maintenance of node2 is over"


def test_a_delayed_request_does_not_begin() -> None:
    """It would have been in time when it was requested."""
    cluster = Upkept()
    first, second = cluster.request("node4"), requested(cluster, "node2", 3600, 1200)
    cluster.run()
    assert "1 of at most 1 nodes are under repair" in waits(cluster, second)
    cluster.wait(3000)
    cluster.done(first)
    cluster.run()
    assert cluster.records[first.uuid].note == "the maintenance of node4 is over"
    assert not begun(cluster, second)
    assert "would end after its deadline" in waits(cluster, second)


@pytest.mark.parametrize(("left", "begins"), [(2, True), (0.5, False)])
def test_how_long_it_takes_is_not_known(left: float, *, begins: bool) -> None:
    """It begins until the deadline; the sentence names no minutes."""
    cluster = Upkept()
    found = requested(cluster, "node2", left, 0)
    cluster.round()
    assert begun(cluster, found) is begins
    if not begins:
        assert waits(cluster, found).startswith("the maintenance of node2 would end after its ")


def test_what_is_only_taken_back_has_no_deadline() -> None:
    """The work on it is over, or an earlier maintenance is undone."""
    cluster = Upkept()
    found = requested(cluster, "node2", -900, 600)
    cluster.change("node2", drained=True, tags=("maintd:drained:uuid-node2",))
    one = cluster.records[found.uuid]
    assert one.maintenance
    worked = one.maintenance._replace(worked=cluster.now)
    cluster.records[found.uuid] = one._replace(maintenance=worked)
    cluster.run()
    assert not cluster.nodes["uuid-node2"].drained


def test_one_that_is_given_back_does_not_begin_again() -> None:
    """After blocked-limit its node is in service, and the request waits."""
    cluster = Upkept()
    found = requested(cluster, "node2", 1500, 600)
    cluster.round()
    drbd1 = cluster.instances["drbd1"]
    cluster.instances["drbd1"] = drbd1._replace(tags=("maintd:off",))
    cluster.run()
    cluster.wait(cluster.config.blocked_limit)
    cluster.run()
    cluster.instances["drbd1"] = drbd1
    cluster.run()
    assert not begun(cluster, found)
    assert "would end after its deadline" in waits(cluster, found)


def test_the_end_is_compared_with_the_deadline() -> None:
    request = Upkept().request("node2").maintenance
    assert request
    assert not misses_deadline(request._replace(expected=60), 10**18)
    request = request._replace(deadline=100 * SECOND, expected=60)
    assert not misses_deadline(request, 40 * SECOND)
    assert misses_deadline(request, 40 * SECOND + 1)
