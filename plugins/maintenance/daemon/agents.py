"""The node agents as the loop needs them: polled reports, and repair commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.maintenance.incident import Submission
from ganeti_steward.core.maintenance.world import NodeFacts, Observation
from ganeti_steward.core.node_agent.protocol import Outcome
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.commands import RepairRunner, agent_repairs
from ganeti_steward.plugins.maintenance.edges.poll import Poll, Poller, Target, agent_reports
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult


class NodeAgents:
    """All agents of the cluster; the settings may change while commands run."""

    def __init__(
        self, settings: Maintd, wake: Callable[[], None], *, runs_commands: bool = True
    ) -> None:
        """``wake`` is called by other threads when there is news.

        ``runs_commands``: False where another process has started those that run.
        """
        self._wake, self._runs_commands = wake, runs_commands
        self._targets: tuple[Target, ...] = ()
        self._runner = RepairRunner(self._repair, wake)
        self._settings = settings
        self._key = KeyFile(settings.key_file, DiskTimeout())
        self._poller = self._new_poller(Poll())

    def _new_poller(self, known: Poll) -> Poller:
        settings = self._settings
        fetch = agent_reports(settings, self._key)
        return Poller(fetch, settings.poll_interval, self._wake, targets=self._targets, known=known)

    def start_polling(self) -> None:
        """Begin to poll in a thread of its own."""
        self._poller.start()

    def poll_once(self) -> None:
        """Poll all agents now, without a thread that goes on."""
        self._poller.poll()

    def configure(self, settings: Maintd) -> None:
        """Use other settings from now on; what is known stays."""
        self._poller.stop()
        self._settings = settings
        if settings.key_file != self._key.path:
            self._key = KeyFile(settings.key_file, DiskTimeout())
        self._poller = self._new_poller(self._poller.latest)
        self._poller.start()

    def stop(self) -> None:
        """End polling within a moment."""
        self._poller.stop()

    @property
    def latest(self) -> Poll:
        """What all polls until now have shown."""
        return self._poller.latest

    def watch(self, nodes: Mapping[str, NodeFacts]) -> None:
        """Poll the agents of these nodes (by uuid), offline ones included, and no others."""
        self._targets = tuple(map(_target, nodes.values()))
        self._poller.set_targets(self._targets)

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> the last observation."""
        return self._poller.latest.observations

    def start(self, node: NodeFacts, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run; returns at once."""
        self._runner.start(submission, _target(node), command, original)

    def results(self, submissions: Iterable[Submission]) -> Mapping[str, CommandResult]:
        """Submission id -> result, of those with a command that is not running any more."""
        return self._runner.results(submissions) if self._runs_commands else {}

    def _repair(self, target: Target, command: str, diagnose: Mapping[str, Any]) -> Outcome:
        return agent_repairs(self._settings, self._key)(target, command, diagnose)


def _target(node: NodeFacts) -> Target:
    return Target(node.uuid, node.name, node.address)
