"""The daemon as a process: from the vote before the start to the signal that ends it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.builtins import MAINTENANCE
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config, Http
from ganeti_steward.core.errors import EXIT_NOT_MASTER, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.iallocator.dispatch import reserved
from ganeti_steward.core.log import set_up_service, to_standard_error
from ganeti_steward.core.process.descendants import end_children
from ganeti_steward.core.process.memory_lock import keep_small
from ganeti_steward.core.safe_files import make_directory
from ganeti_steward.core.service.console_log import ConsoleLog
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.core.service.sd_notify import notify
from ganeti_steward.plugins.lock_file import lock_file
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.config import NO_LOAD, Maintd, Rebalance
from ganeti_steward.plugins.maintenance.daemon import reporting
from ganeti_steward.plugins.maintenance.daemon.candidates import Candidates
from ganeti_steward.plugins.maintenance.daemon.carry_out import NodeAgents
from ganeti_steward.plugins.maintenance.daemon.figures import room
from ganeti_steward.plugins.maintenance.daemon.job_releases import (
    AtOnce,
    Beside,
    JobReleases,
    planned,
    question_of,
)
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import LuxiQueue, read_world
from ganeti_steward.plugins.maintenance.daemon.mastership import (
    NotMaster,
    Voting,
    require_master,
)
from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
from ganeti_steward.plugins.maintenance.daemon.parts import (
    Observer,
    Observers,
    Parts,
    Recorder,
    Round,
)
from ganeti_steward.plugins.maintenance.daemon.recording import Recording
from ganeti_steward.plugins.maintenance.daemon.rounds import Rounds
from ganeti_steward.plugins.maintenance.daemon.wakeup import DaemonStopped, Signals, Wakeup
from ganeti_steward.plugins.maintenance.daemon.words import read_words
from ganeti_steward.plugins.maintenance.edges.audit import Audit
from ganeti_steward.plugins.maintenance.edges.loads import LoadKeeper
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.edges.volume_groups import GroupKeeper
from ganeti_steward.plugins.maintenance.engine.decision import Change, Decision, Inputs, PluginPlan
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.notify.notify import Notifier
from ganeti_steward.plugins.maintenance.notify.silences import Silences
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer
from ganeti_steward.plugins.maintenance.queue.calls import CallNotes
from ganeti_steward.plugins.maintenance.queue.job_search import last_job
from ganeti_steward.plugins.maintenance.queue.watcher_jobs import WatcherJobs
from ganeti_steward.plugins.maintenance.rebalance.remaining import NAME
from ganeti_steward.plugins.maintenance.repairs.disk_gate import verify_disks
from ganeti_steward.plugins.maintenance.repairs.planner import (
    PluginGates,
    PluginPlanner,
    PluginRoutine,
)
from ganeti_steward.plugins.maintenance.repairs.reading import read_disks, read_storage
from ganeti_steward.plugins.model.incident import JOB_SOURCE, Incident
from ganeti_steward.plugins.model.task import Held, RoutinePlan
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.standard_room import Room

#: Settings that are used at the start only.
_FIXED: Final = ("address", "port", "audit_file", "lock_file")
#: Seconds the disk of the state files may take; then the daemon goes on without it.
_DISK: Final = 5.0


class ConfiguredParts:
    """The parts that change with the configuration."""

    def __init__(self, config: Config, wake: Callable[[], None]) -> None:
        """``wake`` is called by other threads when an agent has news.  Raises PluginError."""
        self.config = config
        self.agents = NodeAgents(self.settings, wake)
        self._planner, self._notifier = PluginPlanner(config), Notifier(config)
        self._routine, self._gates = PluginRoutine(config), PluginGates(config)
        self._fault = ""

    @property
    def settings(self) -> Maintd:
        """The section [maintd]."""
        return self.config.section(Maintd)

    def plan(self, incident: Incident, world: World) -> Sequence[PluginPlan]:
        """What the plugins plan for one incident."""
        return self._planner(incident, world)

    def gates(self, world: World) -> tuple[str, ...]:
        """Why no maintenance may begin now."""
        return self._gates(world)

    def plan_routine(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What a plugin of routine work plans."""
        return self._routine(plugin, world)

    def with_loads(self, world: World) -> World:
        """The world with the CPU load that routine work is configured to take into account."""
        settings = self.config.section(Rebalance)
        if NAME not in self.settings.routine or settings.load_data == NO_LOAD:
            return world
        # It imports the engine, which most configurations do not need.
        from ganeti_steward.plugins.maintenance.rebalance.moves import with_load_reports

        return with_load_reports(world, settings)

    def room(self, world: World) -> tuple[Room, ...]:
        """How many more instances of the standard sizes fit."""
        return room(world._replace(cluster=reserved(world.cluster, self.config)[0]))

    def notify(self, changes: Iterable[Change]) -> None:
        """Have the plugins notified of changes."""
        self._notifier.notify(changes)

    @property
    def problems(self) -> tuple[Held, ...]:
        """A configuration file that cannot be used while an older content is, and notifications."""
        fault = (Held("cluster", "configuration", self._fault),) if self._fault else ()
        return *fault, *self._notifier.problems

    def reload(self, read: Callable[[], Config]) -> bool:
        """Use the configuration that ``read`` returns; one that cannot be used changes nothing."""
        try:
            config = read()
            planner, notifier = PluginPlanner(config), Notifier(config)
        except StewardError as err:
            self._fault = f"the configuration could not be read again, the old one is used: {err}"
            _log.error("%s", self._fault)
            return False
        before = self.settings
        self.config, self._planner, self._notifier, self._fault = config, planner, notifier, ""
        self._routine, self._gates = PluginRoutine(config), PluginGates(config)
        self.agents.configure(self.settings)
        _log.info("the configuration was read again")
        for name in _FIXED:
            if getattr(before, name) != getattr(self.settings, name):
                _log.warning("another %s is used only after a restart", name.replace("_", "-"))
        return True

    def stop(self) -> None:
        """End polling; the last notifications have some seconds."""
        self.agents.stop()
        self._notifier.finish()


_log: Final = logging.getLogger(__name__)


def run_daemon(options: DaemonOptions) -> int:
    """Run until a signal ends it; the exit status.

    Raises StewardError when it cannot begin.
    """
    config = load_config(config_path(), MAINTENANCE)
    _set_up_log(config, options)
    keep_small()
    signals = Signals(Wakeup())
    try:
        with lock_file(lock_place(config.section(Maintd))), signals.handled():
            Daemon(options, config, signals).run()
    except DaemonStopped:
        pass
    except NotMaster as err:
        _log.error("maintd ends, this node is not the master: %s", err)
        to_standard_error(f"gnt-steward maintd: this node is not the master: {err}")
        return EXIT_NOT_MASTER
    finally:
        notify("STOPPING=1")
        end_children()
    _log.info("maintd ends")
    return EXIT_OK


def lock_place(settings: Maintd) -> str:
    """The lock file; the directory of the default one is made where systemd has not made it."""
    if settings.lock_file == Maintd().lock_file:
        # What fails here fails again, and is reported, where the file is opened.
        with suppress(OSError):
            make_directory(os.path.dirname(settings.lock_file), 0o755)
    return settings.lock_file


def _set_up_log(config: Config, options: DaemonOptions) -> None:
    set_up_service(config.log.file, "debug" if options.debug else config.log.level, ConsoleLog)
    for warning in config.warnings:
        _log.warning("%s", warning)


def preview(options: DaemonOptions) -> tuple[Inputs, Decision, tuple[Held, ...]]:
    """What the next round would do, and everything it would not do; changes nothing.

    Raises StewardError.
    """
    return Daemon(options, configuration(MAINTENANCE), Signals(Wakeup())).preview()


class Daemon:
    """The loop and everything around it."""

    def __init__(self, options: DaemonOptions, config: Config, signals: Signals) -> None:
        """Raises PluginError."""
        self._options, self._signals, self._wakeup = options, signals, signals.wakeup
        self._configured = ConfiguredParts(config, self._wakeup.wake)
        self._luxi = Luxi(options.luxi_socket, reason_source=JOB_SOURCE)

        def max_age() -> float:
            return self._configured.settings.volume_groups_age

        self._groups = GroupKeeper(max_age, DiskTimeout(_DISK))
        self._loads = LoadKeeper(max_age, DiskTimeout(_DISK))
        self._silences = Silences(lambda: self._configured.settings, time.time_ns)

    def run(self) -> None:
        """Run until it is stopped; raises NotMaster, Stopped and StewardError."""
        configured = self._configured
        voting = self._options.voting(lambda: KeyFile(configured.settings.key_file))
        won = require_master(voting, self._pause, _report_undecided)
        with ExitStack() as stack:
            server = self._server()
            stack.callback(server.stop)
            server.start()
            stack.callback(configured.stop)
            configured.agents.start_polling()
            parts = self._parts(voting, server)
            mode, port = configured.settings.mode, server.port
            _log.info("maintd begins mode=%s port=%s: %s", mode, port, won.reason)
            notify("READY=1")
            self._rounds(parts).run()

    def preview(self) -> tuple[Inputs, Decision, tuple[Held, ...]]:
        """What the next round would do; the agents are polled for it.  Raises StewardError."""
        settings = self._configured.settings
        agents = NodeAgents(settings, self._wakeup.wake, runs_commands=False)
        agents.watch(read_world(self._luxi, time.time_ns(), storage=False).nodes)
        agents.poll_once()
        rounds = self._rounds(self._deciding(acts=False)._replace(agents=agents))
        inputs, decision, held = rounds.decide(lasting=True)
        question = question_of(inputs, inputs.world.incidents, time.time_ns(), settings.mode)
        releases = planned(self._held_jobs(), question)
        return inputs, decision._replace(releases=releases), (*held, *releases.held)

    def _held_jobs(self) -> JobReleases:
        return JobReleases(self._luxi, lambda: self._configured.config, given=last_job)

    def _rounds(self, parts: Parts) -> Rounds:
        return Rounds(parts, self._configured.settings, self._signals)

    def _pause(self, seconds: float) -> None:
        with self._signals.interruptible():
            self._wakeup.wait(seconds)

    def _server(self) -> StatusServer:
        settings = self._configured.settings
        address, port, also = self._options.place(settings)
        application = StatusApplication(
            Status(time.time_ns(), settings.mode),
            # Seconds after the last round from which on the daemon does not count as healthy.
            lambda: 3 * self._configured.settings.round_interval + 300,
        )
        http = self._configured.config.section(Http)
        names = (*self._options.names(), *http.names)
        return StatusServer(application, address, port, also=also, names=names)

    def _parts(self, voting: Voting, server: StatusServer) -> Parts:
        """All parts; the audit log is made."""
        configured, started = self._configured, time.time_ns()
        audit = Audit(configured.settings.audit_file)
        audit.start(started)
        history = reporting.AuditReport(audit, audit.latest(reporting.KEPT))
        candidates = Candidates(
            lambda: configured.config, configured.agents.key, DiskTimeout(_DISK)
        )

        def problems() -> tuple[Held, ...]:
            return (
                *configured.problems,
                *candidates.problems,
                *audit.problems,
                *server.problems,
                *status.problems,
                *observers.problems,
            )

        status = reporting.StatusReport(
            server.publish,
            lambda: configured.agents.latest,
            lambda: configured.settings.mode,
            problems,
            history.latest,
            started,
            configured.room,
            candidates,
        )
        observers = Observers(
            {
                **self._notes(history),
                "the status is not shown": status,
                **self._keepers(),
                "systemd is not notified": lambda outcome: reporting.report_to_systemd(
                    outcome, problems()
                ),
            },
            self._recording(),
        )
        return self._deciding()._replace(
            voting=voting,
            current_candidates=voting.current,
            observers=observers,
            # The vote of the rounds can be interrupted by a signal.
            releasing=Beside(
                AtOnce(self._held_jobs(), voting, lambda: self._signals.stopping),
                self._wakeup.wake,
            ),
            alive=lambda: notify("WATCHDOG=1"),
            reload=self._reload,
        )

    def _notes(self, history: reporting.AuditReport) -> Mapping[str, Observer]:
        """What notes and passes on what each round did."""
        passed_on = self._configured.notify
        return {
            "the audit log does not get what a round did": history,
            "changes are not passed on": lambda outcome: passed_on(history.changes(outcome)),
        }

    def _keepers(self) -> Mapping[str, Observer]:
        """What other programs get of each round."""
        return {
            "allocators do not get what is known of volume groups": self._keep_groups,
            "commands do not get the load of nodes": self._keep_loads,
            "alerts are not silenced": self._silence,
        }

    def _deciding(self, *, acts: bool = True) -> Parts:
        """What reads the cluster and decides; without a vote nothing is done about it.

        ``acts``: whether this process is the daemon.
        """
        notes = CallNotes(f"{self._configured.settings.lock_file}.calls", writes=acts)
        store = Store(
            self._luxi,
            self._configured.agents.key,
            holds_creations=lambda: self._configured.settings.hold_creations,
        )

        def read(now: int, *, storage: bool) -> World:
            return self._configured.with_loads(read_world(self._luxi, now, storage=storage))

        return Parts(
            voting=lambda: Vote(Mastership.UNDECIDED, "no vote was held"),
            store=store,
            queue=LuxiQueue(self._luxi, store, wake=self._wakeup.wake, notes=notes, given=last_job),
            read_world=read,
            read_storage=partial(read_storage, self._luxi),
            read_disks=partial(read_disks, self._luxi),
            read_watcher=WatcherJobs(self._luxi).read,
            read_words=partial(read_words, self._luxi),
            agents=self._configured.agents,
            gates=self._configured.gates,
            verify_disks=partial(verify_disks, self._luxi),
            planner=self._configured.plan,
            routine_planner=self._configured.plan_routine,
            step=step,
        )

    def _keep_groups(self, outcome: Round) -> None:
        # Where it is undecided, the configuration here may be an old one.
        if outcome.world is not None and not outcome.undecided:
            self._groups(outcome.world)

    def _silence(self, outcome: Round) -> None:
        if outcome.world is not None and not outcome.undecided:
            self._silences(outcome.world, outcome.incidents.values())

    def _keep_loads(self, outcome: Round) -> None:
        if outcome.world is not None:
            self._loads(outcome.world)

    def _reload(self) -> Maintd | None:
        if not self._configured.reload(lambda: load_config(config_path(), MAINTENANCE)):
            return None
        _set_up_log(self._configured.config, self._options)
        return self._configured.settings

    def _recording(self) -> Mapping[str, Recorder]:
        """The recording that the command line requests; raises StewardError."""
        if not (path := self._options.record):
            return {}
        recording = Recording(path, DiskTimeout(_DISK))
        try:
            recording.begin()
        except OSError as err:
            raise StewardError(f"{path} cannot be written: {reason_of(err)}") from None
        return {f"the recording {path} cannot be written": recording}


def _report_undecided(reason: str) -> None:
    _log.warning("whether this node is the master is undecided: %s", reason)
    notify(f"STATUS=waiting for the vote: {reason}")
