"""``gnt-steward maintenance run``: the maintenance of one node in the foreground."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.builtins import MAINTENANCE
from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_lines, print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_NOT_MASTER, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.this_node import DATA, SOCKET
from ganeti_steward.core.log import to_standard_error
from ganeti_steward.plugins.lock_file import is_locked
from ganeti_steward.plugins.maintenance.cli.cluster import Recorded, daemon_address, live_client
from ganeti_steward.plugins.maintenance.cli.planned import maintenance_plan, requests
from ganeti_steward.plugins.maintenance.cli.planned.maintenance_wait import EXIT_OTHER_END
from ganeti_steward.plugins.maintenance.config import ACT, OBSERVE, Maintd
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_status
from ganeti_steward.plugins.maintenance.edges.status import wait_line
from ganeti_steward.plugins.maintenance.engine.decision import CLUSTER
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ganeti_steward.core.model.cluster import Node
    from ganeti_steward.plugins.maintenance.daemon.parts import Round
    from ganeti_steward.plugins.maintenance.engine.decision import Change, Started
    from ganeti_steward.plugins.model.task import Held
    from ganeti_steward.plugins.model.world import World

#: Exit status where a signal has ended the command before the maintenance was over.
EXIT_INTERRUPTED: Final = 3

#: Seconds after which a sentence is printed again of which only figures have changed.
_AGAIN: Final = 60.0
_FIGURES: Final = re.compile(r"\d+")

#: What a request can have that an option says -> that option.
_OPTIONS: Final = {
    "choice": "--stop or --move",
    "returns": "--no-return",
    "full": "--full",
    "work": "--work",
    "before": "--before",
    "after": "--after",
    "master_before": "--master-before",
    "master_after": "--master-after",
    "tag": "--remove-tag",
}


def run_options(one: argparse.ArgumentParser) -> None:
    """The node, examples and exit statuses of the sub-command ``run``."""
    describe(
        one,
        {
            "gnt-steward maintenance run node3": "empty node3, wait for your work, take it back",
            "gnt-steward maintenance run node3 --work power": "reboot it as well",
        },
        statuses={
            EXIT_FAILURE: "it cannot begin: nothing is requested then",
            EXIT_INTERRUPTED: "it was interrupted; run it again to go on",
            EXIT_OTHER_END: "the maintenance has failed or was canceled, or its record is gone",
            EXIT_NOT_MASTER: "this node is not the master",
        },
    )
    one.add_argument("node", nargs=1, metavar="NODE", help="a node, by name or uuid")
    one.set_defaults(group=None, all=False, roll=False, with_master=False, at_once=None, by=None)


def run_maintenance(options: argparse.Namespace, check: Callable[[], Node | None]) -> int:
    """Carry out the maintenance of the node; the exit status.

    ``check``: the node, None where it cannot be away; raises StewardError.
    """
    from ganeti_steward.plugins.maintenance.daemon.foreground import run_only  # with the engine
    from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster
    from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions

    config = configuration(MAINTENANCE)
    if is_locked(config.section(Maintd).lock_file):
        raise StewardError(_in_use(config.section(Maintd), options.node[0]))
    node = check()
    if node is None:
        return EXIT_FAILURE
    follower = Follower(node, time.monotonic)
    place = DaemonOptions(luxi_socket=source_options(options).luxi_socket or SOCKET)

    def request() -> str:
        incident = active(options, node) or _requested(options, node)
        follower.follow(incident)
        return incident.uuid

    def undecided(reason: str) -> None:
        print_notes([f"whether this node is the master is undecided: {reason}"])

    try:
        over = run_only(place, config, request, follower, undecided)
    except NotMaster as err:
        to_standard_error(f"gnt-steward maintenance: this node is not the master: {err}")
        return EXIT_NOT_MASTER
    return follower.ended() if over else follower.interrupted()


def _in_use(settings: Maintd, name: str) -> str:
    """Why it cannot begin, and what to do: another process has the daemon's lock."""
    try:
        mode = fetch_status(daemon_address(settings, DATA), settings.port)["daemon"]["mode"]
    except (StewardError, LookupError, TypeError):
        mode = ""
    if mode == ACT:
        return (
            "the maintenance daemon runs here and acts; request the maintenance with: gnt-steward "
            f"maintenance start {name}"
        )
    if mode == OBSERVE:
        return (
            "the maintenance daemon runs here in mode observe; stop it for as long as this command "
            "runs: systemctl stop gnt-steward-maintd"
        )
    return (
        f"another process holds {settings.lock_file}: the maintenance daemon or another "
        "maintenance run (fuser shows which); it must end first"
    )


def active(options: argparse.Namespace, node: Node) -> Incident | None:
    """The active maintenance of the node, which goes on; None: there is none.

    Raises StewardError where it is not the one that the options request.
    """
    for one in requests.requests_of(live_client(options)):
        if one.incident.node == node.uuid and one.incident.active:
            if why := Recorded(one.incident, one.signature).ignored:
                raise StewardError(why)
            wanted = requests.wanted(options, maintenance_plan.choice(options))
            if differing := list(_differing(wanted, one.request)):
                raise StewardError(
                    f"{node.name} has an active maintenance with another {', '.join(differing)}; "
                    "leave the option out to go on with it, or cancel it first: gnt-steward "
                    f"maintenance cancel {node.name}"
                )
            return one.incident
    return None


def _differing(wanted: Maintenance, recorded: Maintenance) -> Iterator[str]:
    """The options that were given and are not those of a recorded request."""
    usual = Maintenance("refuse")
    for field, option in _OPTIONS.items():
        value = getattr(wanted, field)
        if value not in (getattr(usual, field), getattr(recorded, field)):
            yield option


def _requested(options: argparse.Namespace, node: Node) -> Incident:
    request = requests.wanted(options, maintenance_plan.choice(options))
    (incident,) = requests.write_requests(options, [node], request, options.reason or "")
    print(f"Requested maintenance of {node.name}: incident {incident.uuid}.", flush=True)
    return incident


class Follower:
    """Prints a line for each state, step and wait of one maintenance."""

    def __init__(self, node: Node, clock: Callable[[], float]) -> None:
        """``clock``: s."""
        self._node, self._clock = node, clock
        self._incident: Incident | None = None
        """as it was recorded last; None: it is not requested yet"""
        self._gone = False
        """whether it is not recorded any more"""
        self._state = ""
        self._announced: set[str] = set()
        """ids of submissions whose line was printed"""
        self._waits: dict[tuple[str, str], tuple[float, str]] = {}
        """word and line without figures -> when it was printed, and the line"""

    def follow(self, incident: Incident) -> None:
        """Follow this incident from now on."""
        self._incident = incident

    def __call__(self, outcome: Round) -> bool:
        """Print what a round did; whether the maintenance is over."""
        if outcome.fault:
            self._say(f"the round failed, it is tried again: {outcome.fault}")
        if self._incident is None or outcome.world is None:
            return False
        uuid = self._incident.uuid
        known = outcome.incidents.get(uuid)
        self._gone, self._incident = known is None, known or self._incident
        self._enter(self._incident, outcome.world)
        started = [one for one in outcome.started if one.incident == uuid]
        for one in started:
            self._start(one, self._incident)
        self._wait([one for one in outcome.held if one.subject in (uuid, CLUSTER)], self._incident)
        if outcome.fault or outcome.undecided:
            return False
        changed = any(uuid in _uuids(change) for change in outcome.changes)
        busy = self._incident.active or self._incident.open or started or changed
        return self._gone or not busy

    def _say(self, text: str) -> None:
        print_lines([f"{self._node.name}: {text}"])
        sys.stdout.flush()

    def _enter(self, incident: Incident, world: World) -> None:
        """Print the state where it is another one."""
        if incident.maintenance is None:
            return
        state = requests.state_of(incident, incident.maintenance, world.cluster, world.now)
        if state != self._state:
            self._say(state if incident.active else f"{state}: {incident.note}")
        self._state = state

    def _start(self, started: Started, incident: Incident) -> None:
        self._announced.add(started.submission)
        jobs = next((one.jobs for one in incident.open if one.id == started.submission), ())
        numbers = f" (jobs: {', '.join(map(str, jobs))})" if jobs else ""
        self._say(f"{started.task.reason}{numbers}")

    def _wait(self, held: Sequence[Held], incident: Incident) -> None:
        """Print what it waits for now; where only figures have changed, again after a while."""
        waits, now = dict[tuple[str, str], tuple[float, str]](), self._clock()
        known = {one.id for one in incident.open} <= self._announced
        for one in held:
            line = wait_line(one)
            key = one.brake, _FIGURES.sub("", line)
            at, printed = self._waits.get(key, (now - _AGAIN, ""))
            if line != printed and now - at >= _AGAIN and not (known and one.brake == "running"):
                self._say(line)
                at, printed = now, line
            waits[key] = at, printed
        self._waits = waits

    def ended(self) -> int:
        """The exit status of a maintenance that is over."""
        incident = self._incident
        if incident and not incident.active and incident.state.succeeded:
            return EXIT_OK
        if self._gone:
            self._say("its record is gone")
        return EXIT_OTHER_END

    def interrupted(self) -> int:
        """Print how to go on; the exit status."""
        name = self._node.name
        if self._incident is None:
            print("Interrupted; nothing was requested.")
            return EXIT_INTERRUPTED
        print(f"Interrupted; the maintenance of {name} is not over.")
        if doing := progress(self._incident):
            print(f"Its running jobs go on: {doing}.")
        print(
            f"gnt-steward maintenance run {name} continues it; gnt-steward maintenance cancel "
            f"{name} ends it."
        )
        return EXIT_INTERRUPTED


def _uuids(change: Change) -> set[str]:
    return {one.uuid for one in (change.before, change.after) if one}
