"""The node agents as the loop needs them: polled reports, and repair commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.world import NodeFacts, Observation
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.commands import RepairRunner, agent_calls
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
        self._runner = RepairRunner(lambda: agent_calls(self._settings, self._key), wake)
        self._settings = settings
        self._key = KeyFile(settings.key_file, DiskTimeout())
        self._poller = self._new_poller(Poll())

    def _new_poller(self, known: Poll) -> Poller:
        settings = self._settings
        fetch = agent_reports(settings, self._key)
        return Poller(fetch, settings.poll_interval, self._wake, targets=self._targets, known=known)

    def key(self) -> bytes:
        """The cluster's key; raises NoKey."""
        return self._key.key()

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

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        """Submission id -> what is known, of open submissions whose command is not running.

        Nodes are known from the first `watch` on.
        """
        if not (self._runs_commands and self._targets):
            return {}
        targets = {one.uuid: one for one in self._targets}
        return self._runner.results(
            (submission, targets.get(one.node, Target(one.node, one.node_name, "")))
            for one in incidents
            for submission in one.open
        )


def _target(node: NodeFacts) -> Target:
    return Target(node.uuid, node.name, node.address)
