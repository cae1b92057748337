"""Node agents, and the daemon's side of them: polled, queried and answered without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fault_world.causes.control import fail_over
from fault_world.clock import SECOND, Process
from fault_world.faults import COMMAND
from ganeti_steward.core.canonical_json import canonical_object
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.node_agent.protocol import MASTER_FAILOVER, CommandEnd
from ganeti_steward.core.node_agent.remembered import ENDED, LOST, NEVER, RUNNING, RepairState
from ganeti_steward.diagnose.agent.takeover import VALID
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.answers import RejectedAnswer, check_report
from ganeti_steward.plugins.maintenance.edges.client import (
    AgentRefused,
    MachineGone,
    NotConnected,
    OutcomeUnknown,
)
from ganeti_steward.plugins.maintenance.edges.commands import (
    AgentCalls,
    RepairRunner,
    SubmittedCommand,
    commands_of,
)
from ganeti_steward.plugins.maintenance.edges.poll import Target, failed, is_news, polled, since
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult
from ganeti_steward.plugins.maintenance.runtime import Runtime
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.world import Observation

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Row = dict[str, Any]

_HEALTHY: Final[Row] = {"status": "Ok"}
#: Seconds that a command takes which hangs.
_HANGS: Final = 10.0**6


class Agent:
    """The agent of one node; its memory survives restarts."""

    def __init__(self, world: World, node: str) -> None:
        self._world, self._node = world, node
        self._known: dict[str, RepairState] = {}
        """id -> what became of the command"""
        self._objects: dict[bytes, int] = {}
        """diagnose object -> when a command was run for it, ns since the epoch"""
        self._good: set[str] = set()
        """ids of the commands that have ever ended well"""
        self._last: Row | None = None
        self.forgot = False
        """whether it has ever lost its memory"""

    def answers(self) -> bool:
        """Whether it can be reached at all."""
        ganeti = self._world.ganeti
        return self._node not in ganeti.off and self._node not in ganeti.silent

    def report(self) -> Row:
        """What it reports now; raises StewardError."""
        if not self.answers():
            raise StewardError(f"the agent of {self._node} does not answer")
        now = self._world.clock_of(self._node)
        data = self._world.ganeti.reports.get(self._node, _HEALTHY)
        report: Row = {"node": self._node, "timestamp": now, "data": data}
        report["boot_id"] = f"{self._node} {self._world.ganeti.boots[self._node]}"
        report["master_failover"] = self._node in self._world.ganeti.takes_over
        report["drbd_peers"] = self._world.ganeti.linked(self._node)
        report["unreached"] = self._world.unreached(self._node)
        kind = self._world.faults.of_report(self._node)
        if kind == "lost":
            raise StewardError(f"the agent of {self._node} has not answered within 10 s")
        if kind == "forged":
            raise RejectedAnswer("signature", "the signature of the report is wrong")
        if kind == "old" and self._last is not None:
            report = self._last
        self._last = report
        if report["data"] != _HEALTHY:
            self._world.checks.jobs.reported(self._node)
        return report

    def run(self, submission: str, command: str, original: bytes) -> float:
        """Begin a command; how many seconds it takes.  Raises AgentRefused."""
        world = self._world
        if submission in self._known:
            raise AgentRefused(f"the command with id {submission} was run already")
        data = world.ganeti.reports.get(self._node, _HEALTHY)
        given = json.loads(original)
        maintenance, step = str(given.get("maintenance", "")), str(given.get("step", ""))
        if not maintenance and (
            data.get("command") != command or canonical_object(data) != original
        ):
            raise AgentRefused(f"{self._node} does not report what requests {command}")
        at = self._objects.get(original)
        if at is not None and world.clock.now - at < 3600 * SECOND:
            raise AgentRefused(f"{command} was run for the same object within an hour")
        self._objects[original] = world.clock.now
        started = world.clock.now // SECOND
        self._known[submission] = RepairState(RUNNING, command, started)
        world.checks.command_run(self._node, submission, command, original)
        world.faults.surprise(COMMAND)
        seconds = world.draw("command").choice((1.0, 5.0, 30.0, 300.0))
        if world.faults.of_command() == "hang":
            seconds = _HANGS
        world.clock.after(seconds, lambda: self._ended(submission, maintenance, step))
        return seconds

    def take_over(self, submission: str, wanted: bytes, submitted: int) -> float:
        """Begin to make its node the master; how many seconds it takes.  Raises AgentRefused.

        What is refused is refused with a signature.
        """
        world = self._world
        copy, given = world.copies[self._node], json.loads(wanted)
        if self._node not in world.ganeti.takes_over or world.faults.of_command() == "refuse":
            raise AgentRefused("it was not run: it is not permitted here (agent.master-failover)")
        if abs(world.clock_of(self._node) // SECOND - submitted) > VALID:
            raise AgentRefused("it was not run: the request is old")
        if copy.master != given["master"] or self._node not in copy.candidates:
            raise AgentRefused("it was not run: it is not a candidate, or knows another master")
        if submission in self._known:
            return 0.0
        world.narrate(f"{self._node} runs gnt-cluster master-failover")
        self._known[submission] = RepairState(RUNNING, MASTER_FAILOVER, world.clock.now // SECOND)
        world.checks.take_overs.run(self._node, submission, wanted)
        hangs = world.faults.of_command() == "hang"
        world.clock.after(_HANGS if hangs else 5.0, partial(self._taken_over, submission))
        return _HANGS if hangs else 5.0

    def _taken_over(self, submission: str) -> None:
        world, state = self._world, self._known[submission]
        drawn = world.ganeti.takeover_may_fail and world.draw("takeover").random() < 0.4
        good = world.faults.of_command() != "fail" and not drawn and self.answers()
        if good:
            fail_over(self._world, self._node)
        outcome = CommandEnd(0, "") if good else CommandEnd(1, "not enough votes")
        self._known[submission] = state._replace(state=ENDED, outcome=outcome)

    def _ended(self, submission: str, maintenance: str, step: str) -> None:
        """``maintenance``: uuid of that for which the command reboots the node; empty: none.

        ``step``: of a command before or after that, which does not.
        """
        state = self._known.get(submission)
        if state is None or state.state != RUNNING:
            return
        drawn = self._world.draw("command result").random() < 0.7
        good = {"succeed": True, "fail": False}.get(self._world.faults.of_command(), drawn)
        outcome = CommandEnd(0 if good else 1, "done" if good else "failed")
        self._known[submission] = state._replace(state=ENDED, outcome=outcome)
        if good:
            self._good.add(submission)
        if step:
            self._world.checks.around.ended(maintenance, step, good=good)
        elif good and maintenance:
            # Most such commands end with the node, and some before.
            late = self._world.draw("reboot").random() < 0.3
            if not late:
                self._known[submission] = state
            reboot = partial(self._world.checks.reboots.rebooted, maintenance, self._node)
            self._world.clock.after(20 if late else 0, reboot)
        elif good:
            self._world.ganeti.reports.pop(self._node, None)

    def state(self, submission: str) -> RepairState:
        """What became of a command; after this it is not started any more."""
        return self._known.setdefault(submission, RepairState(NEVER))

    def forget(self) -> None:
        """It does not know any more which commands were run, but for those that run."""
        self._objects.clear()
        self.forgot = True
        known = self._known.items()
        self._known = {key: state for key, state in known if state.state == RUNNING}

    def runs(self, submission: str) -> bool:
        """Whether a command runs that has not taken longer than any may take."""
        state = self._known.get(submission)
        limit = self._world.settings.command_time_limit
        passed = self._world.clock.now // SECOND - (state.started if state else 0)
        return state is not None and state.state == RUNNING and passed < limit

    def succeeded(self, submission: str) -> bool:
        """Whether a command has ever ended well."""
        return submission in self._good

    def lost(self) -> None:
        """The node was off: what ran has not ended in a way that is known."""
        for key, state in self._known.items():
            if state.state == RUNNING:
                self._known[key] = state._replace(state=LOST)


class WorldAgents:
    """The part `Agents` of the daemon's loop."""

    def __init__(
        self,
        world: World,
        process: Process,
        settings: Maintd,
        runtime: Runtime,
        wake: Callable[[], None],
        daemon: Daemon,
    ) -> None:
        self._world, self._settings, self._runtime, self._wake = world, settings, runtime, wake
        self._answers, self._daemon = daemon.answers, daemon
        self._targets: tuple[Target, ...] = ()
        self._seen: dict[str, Observation] = {}
        calls = AgentCalls(self._repair, self._ask, settings.command_time_limit)
        self._runner = RepairRunner(lambda: calls, wake, runtime=runtime)
        process.start(self._poll)

    def _poll(self) -> None:
        while True:
            for target in self._targets:
                self._poll_one(target)
            self._runtime.sleep(self._settings.poll_interval)

    def _poll_one(self, target: Target) -> None:
        now, report = self._runtime.clock(), None
        try:
            off = target.name in self._world.ganeti.off
            gone = off or not self._world.reach_agent(self._daemon.node, target.name)
            self._answers.machine(target.name, gone=gone)
            if gone:
                raise MachineGone(f"the agent of {target.name} does not answer")
            report = self._world.agents[target.name].report()
            names = (target.uuid, target.name)
            check_report(report, names, now, self._settings.report_max_age)
            ahead = self._world.clock_of(target.name) - self._world.clock_of(self._daemon.node)
            found = polled({**report, "clock_ahead": ahead // SECOND}, now)
        except StewardError as err:
            found = failed(err, now)
        self._answers.got(target.name, report)
        before = self._seen.get(target.uuid)
        self._seen[target.uuid] = since(before, found.observation)
        if is_news(before, found.observation):
            self._wake()

    def watch(self, nodes: Mapping[str, Node]) -> None:
        """Poll these from now on; new ones at once."""
        new = [one for one in map(_target, nodes.values()) if one not in self._targets]
        self._targets = tuple(map(_target, nodes.values()))
        self._seen = {uuid: one for uuid, one in self._seen.items() if uuid in nodes}
        for target in new:
            self._poll_one(target)

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> the last observation."""
        self._answers.observe()
        return dict(self._seen)

    def start(self, node: Node, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run."""
        self._world.checks.command_requested(self._daemon, node.name, original)
        self._runner.start(submission, _target(node), command, original)

    def take_over(self, node: Node, submission: str, wanted: bytes) -> None:
        """Have a node made the master."""
        self._world.checks.take_overs.requested(self._daemon, node.name, wanted)
        target = _target(node)
        self._runner.start(submission, target, MASTER_FAILOVER, wanted, takes_over=True)

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        """Submission id -> what is known."""
        if not self._targets:
            return {}
        return self._runner.results(commands_of(incidents, self._targets))

    def _agent(self, command: SubmittedCommand) -> Agent:
        agent = self._world.agents[command.target.name]
        if not self._world.reach_agent(self._daemon.node, command.target.name):
            raise NotConnected(f"the agent of {command.target.name} cannot be reached")
        self._runtime.sleep(0.01 + self._world.faults.of_agent())
        if not agent.answers():
            raise NotConnected(f"the agent of {command.target.name} cannot be reached")
        return agent

    def _repair(self, command: SubmittedCommand, diagnose: bytes) -> CommandEnd:
        agent = self._agent(command)
        if command.takes_over:
            seconds = agent.take_over(command.submission, diagnose, command.submitted)
        else:
            seconds = agent.run(command.submission, command.name, diagnose)
        limit = self._settings.command_time_limit
        self._runtime.sleep(min(seconds + 0.01, limit))
        state = agent.state(command.submission)
        if not agent.answers() or state.state != ENDED or self._world.faults.loses_answer():
            raise OutcomeUnknown(f"whether {command.name} was run is not known")
        return state.outcome

    def _ask(self, command: SubmittedCommand) -> RepairState:
        return self._agent(command).state(command.submission)


def _target(node: Node) -> Target:
    return Target(node.uuid, node.name, node.primary_ip)
