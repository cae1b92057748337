"""A tag of a node that requested its maintenance is removed once that is over, and only then."""

from __future__ import annotations

import pytest
from upkept import Upkept

TAG = "needsreboot"


@pytest.mark.parametrize("drained", [False, True])
def test_the_tag_is_removed_at_the_end(drained: bool) -> None:
    cluster = Upkept()
    cluster.change("node2", drained=drained, tags=(TAG, "rack:a"))
    found = cluster.request("node2", tag=TAG)
    cluster.run()
    assert TAG in cluster.nodes["uuid-node2"].tags
    cluster.reboot("node2")
    cluster.come_back("node2")
    cluster.done(found)
    cluster.syncing.clear()
    cluster.degraded.clear()
    cluster.run()
    cluster.syncing.clear()
    cluster.run()
    assert cluster.records[found.uuid].state_name == "acknowledged"
    assert cluster.nodes["uuid-node2"].tags == ("rack:a",)


def test_it_stays_where_the_maintenance_was_canceled() -> None:
    cluster = Upkept()
    cluster.change("node2", tags=(TAG,))
    found = cluster.request("node2", tag=TAG)
    cluster.run()
    cluster.tag("node2", found.cancel_tag)
    cluster.run()
    assert cluster.records[found.uuid].state_name == "canceled"
    assert TAG in cluster.nodes["uuid-node2"].tags


def test_one_that_a_person_has_removed() -> None:
    cluster = Upkept()
    found = cluster.request("node2", tag=TAG)
    cluster.run()
    cluster.done(found)
    cluster.run()
    assert cluster.records[found.uuid].state_name == "acknowledged"
