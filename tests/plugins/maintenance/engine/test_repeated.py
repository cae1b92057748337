"""A repair command is not begun again because a record was deleted or a report flips."""

from __future__ import annotations

import re

import pytest
from maintained import CONFIG, OK, REPAIR, Maintained, diagnose

from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    CommandResult,
    Recent,
)
from ganeti_steward.plugins.model.incident import COMPLETED, FAILED

PAUSING = CONFIG._replace(command_again_after=3600)


def repaired() -> Maintained:
    """A node whose command was run 100 s ago."""
    cluster = Maintained(config=PAUSING)
    cluster.report("node2", REPAIR)
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED
    cluster.wait(100)
    return cluster


def delete_records(cluster: Maintained) -> None:
    """What everybody can do who may write job filters and tags."""
    for incident in cluster.records.values():
        cluster.untag("node2", incident.ready_tag)
    cluster.records.clear()


def test_the_record_and_the_tag_were_deleted() -> None:
    cluster = repaired()
    for _ in range(4):
        delete_records(cluster)
        cluster.run()
        assert len(cluster.commands) == 1
    held = cluster.held()["repeated"]
    assert re.fullmatch(
        r"the command fix-nic was begun on node node2 for the same object 1\d\d s ago: it is not "
        r"begun again for another 34\d\d s",
        held,
    )
    cluster.wait(3600)
    cluster.run()
    assert len(cluster.commands) == 2


def test_the_record_was_deleted_while_the_command_ran() -> None:
    cluster = Maintained(config=PAUSING)
    cluster.report("node2", REPAIR)
    cluster.round()
    delete_records(cluster)
    cluster.run()
    assert len(cluster.commands) == 1


def test_the_record_was_copied() -> None:
    """Also after a restart of the daemon, for which only the records are left."""
    cluster = repaired()
    incident = cluster.incident("node2")
    copy = incident._replace(uuid="copy", status="noted", tag="", tagged=False, observed_since=1)
    cluster.records["copy"] = copy
    cluster.recent = Recent()
    cluster.run()
    assert len(cluster.commands) == 1
    assert "repeated" in cluster.held()


def test_the_report_flips() -> None:
    """Acknowledged, healthy for long enough to be forgotten, and reported again."""
    cluster = repaired()
    cluster.untag("node2", cluster.incident("node2").tag)
    cluster.run()
    for _ in range(3):
        cluster.report("node2", OK)
        cluster.round()
        cluster.wait(700)
        cluster.run()
        assert cluster.records == {}
        cluster.report("node2", REPAIR)
        cluster.run()
        assert len(cluster.commands) == 1
        assert "repeated" in cluster.held()
        cluster.wait(100)


def test_it_failed_and_its_tag_was_removed() -> None:
    cluster = Maintained(config=PAUSING)
    cluster.report("node2", REPAIR)
    cluster.round()
    (submission,) = cluster.commands
    cluster.results[submission] = CommandResult(False, "exit status 3")
    cluster.run()
    incident = cluster.incident("node2")
    assert incident.status == FAILED
    cluster.untag("node2", incident.tag)
    cluster.run()
    assert len(cluster.commands) == 1
    assert "repeated" in cluster.held()


@pytest.mark.parametrize("more", [{"details": "other"}, {"command": "other"}])
def test_another_object(more: dict[str, str]) -> None:
    cluster = repaired()
    cluster.report("node2", diagnose("live-repair", **{"command": "fix-nic"} | more))
    cluster.run()
    assert len(cluster.commands) == 2


def test_another_node_with_the_same_object() -> None:
    cluster = repaired()
    cluster.report("node3", REPAIR)
    cluster.run()
    assert len(cluster.commands) == 2


def test_a_command_that_never_came_is_begun_again() -> None:
    cluster = Maintained(config=PAUSING)
    cluster.report("node2", REPAIR)
    cluster.round()
    (lost,) = cluster.commands
    cluster.results[lost] = CommandResult(False, "it never came", NEVER_CAME)
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED
    assert len(cluster.commands) == 2


def test_only_the_limit_is_remembered() -> None:
    cluster = repaired()
    assert len(cluster.recent.commands) == 1
    cluster.wait(3600)
    cluster.round()
    assert cluster.recent.commands == {}
