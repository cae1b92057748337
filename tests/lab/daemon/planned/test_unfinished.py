"""A maintenance that is canceled in the middle: what it has changed is remembered and undone."""

from __future__ import annotations

from ...cluster import until
from ..faults.findings import says
from ..maintained_lab import MaintainedLab
from .rolling import homes, running

NODE = "node3.lab"
PLACES = (
    ("inst1.lab", "drbd", "node3.lab:node2.lab"),
    ("inst2.lab", "plain", "node3.lab"),
)


def ran(lab: MaintainedLab, *words: str) -> str:
    """What a command about maintenance prints."""
    done = lab.steward("maintenance", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_canceled_maintenance_is_undone_when_its_record_is_gone(
    maintained: MaintainedLab,
) -> None:
    lab = maintained
    lab.place(*PLACES)
    before, where = homes(lab), running(lab)
    (uuid,) = lab.node(NODE, "uuid")
    with lab.daemon("healthy-delay = 1"):
        ran(lab, "start", NODE, "--stop")
        says(lab, f"{NODE} is ready: nothing runs on it")
        shown = ran(lab, "cancel", NODE)
        assert (
            f"It stays as it is: {NODE} is drained; inst2.lab shut down; inst1.lab not back."
            in shown
        )
        assert "gnt-instance startup inst2.lab" in shown
        until(lambda: lab.incidents == {})
        assert f"maintd:drained:{uuid}" in lab.node(NODE, "tags")[0]
        assert "unfinished" in ran(lab, "list", "--no-headers", "-o", "state")
        checked = lab.steward("check", "--no-simulation", "--no-capacity-checks").stdout
        assert "unfinished maintenance" in checked
        assert f"it was shut down for the maintenance of {NODE}" in lab.steward("leftovers").stdout
        assert ran(lab, "done", NODE).startswith(f"Requested the return of {NODE}")
        until(lambda: (homes(lab), running(lab)) == (before, where))
        until(lambda: lab.node(NODE, "drained", "tags") == [False, []])
        until(lambda: lab.rows("instance", "tags") == [[[]], [[]]])


def test_a_cancel_between_two_rounds_stops_what_is_not_handed_over(
    maintained: MaintainedLab,
) -> None:
    """The tag is set while the daemon waits for a job; the instance is not shut down after it."""
    lab = maintained
    lab.place(PLACES[1])
    with lab.daemon("moves-at-once = 1\nround-interval = 5"):
        ran(lab, "start", NODE, "--stop")
        until(lambda: lab.node(NODE, "drained") == [True])
        ran(lab, "cancel", NODE)
        until(lambda: [one.status for one in lab.incidents.values()] == ["canceled"])
        (state,) = (one for (one,) in lab.rows("instance", "admin_state"))
        # Where the shutdown was handed over before the cancel, its tag says so.
        (tags,) = (one for (one,) in lab.rows("instance", "tags"))
        assert bool([tag for tag in tags if tag.startswith("maintd:shutdown:")]) == (
            state == "down"
        )
        ran(lab, "done", NODE)
        until(lambda: running(lab) == {"inst2.lab": NODE} and lab.node(NODE, "drained") == [False])
