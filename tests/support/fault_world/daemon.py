"""The daemon of one node, as the product makes it, but for sockets, clock and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from errno import ENOSPC
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fault_world.agents import WorldAgents
from fault_world.checks.answers import Answers
from fault_world.checks.seen import both
from fault_world.clock import SECOND, Clock, Process, Thread
from fault_world.luxid import WorldConnections, WorldLuxi
from fault_world.plugins import SitePlanner
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.confd.client import Confd
from ganeti_steward.plugins.maintenance.confd.messages import Query, QueryType, Reply, ReplyStatus
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.job_releases import AtOnce, JobReleases
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import LuxiQueue, read_world
from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster, Voting, require_master
from ganeti_steward.plugins.maintenance.daemon.parts import Observer, Observers, Parts, Round
from ganeti_steward.plugins.maintenance.daemon.reporting import KEPT, AuditReport, StatusReport
from ganeti_steward.plugins.maintenance.daemon.rounds import Rounds
from ganeti_steward.plugins.maintenance.daemon.wakeup import DaemonStopped, Signals, Wakeup
from ganeti_steward.plugins.maintenance.daemon.words import read_words
from ganeti_steward.plugins.maintenance.edges.audit import Audit, KeptRow
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.edges.store import Records, Store
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.page.http import StatusApplication
from ganeti_steward.plugins.maintenance.queue.calls import CallNotes, Noted
from ganeti_steward.plugins.maintenance.queue.watcher_jobs import WatcherJobs
from ganeti_steward.plugins.maintenance.repairs.disk_gate import verify_disks
from ganeti_steward.plugins.maintenance.repairs.planner import PluginGates, PluginRoutine
from ganeti_steward.plugins.maintenance.repairs.reading import read_disks, read_storage
from ganeti_steward.plugins.maintenance.runtime import Runtime
from ganeti_steward.plugins.model.task import Held

if TYPE_CHECKING:
    from fault_world.checks.seen import Seen
    from fault_world.world import World

_Result = TypeVar("_Result")

KEY: Final = b"the key of the simulated cluster"


class NodeDisk:
    """What the daemon of one node keeps in files."""

    def __init__(self) -> None:
        self.calls = Noted()
        self.audit = ""
        """the file of the audit log"""
        self.full, self.was_full = False, False

    def fill(self) -> None:
        """Nothing can be written any more."""
        self.full = self.was_full = True

    def empty(self) -> None:
        """There is room again."""
        self.full = False

    def check(self) -> None:
        """Raise OSError when it is full."""
        if self.full:
            raise OSError(ENOSPC, "No space left on device")


class DiskNotes(CallNotes):
    """The notes of calls, in a file of the simulated node."""

    def __init__(self, disk: NodeDisk) -> None:
        self._disk, self._before, self._own = disk, disk.calls, frozenset()

    def _write(self) -> None:
        if self._disk.full:
            raise StewardError("the notes of calls cannot be written: No space left on device")
        self._disk.calls = self._all


class WorldAudit(Audit):
    """The audit log in a file of its own, without the thread that waits for the disk."""

    def __init__(self, world: World, node: str) -> None:
        disk = world.disks[node]

        def call(work: Callable[[], _Result], /) -> _Result:
            disk.check()
            return work()

        super().__init__(disk.audit, call)
        self._reported, self._node = world.checks.reported, node

    def write(self, entries: Iterable[AuditEntry], kept: Iterable[KeptRow] = ()) -> None:
        entries = [*entries]
        self._reported.entries(self._node, entries)
        super().write(entries, kept)


class WorldWakeup(Wakeup):
    """Wakes a simulated thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._woken = clock, False
        self._waiting: Thread | None = None

    def wake(self) -> None:
        self._woken = True
        if self._waiting:
            self._waiting.wake()

    def wait(self, seconds: float) -> bool:
        thread = self._clock.thread
        assert thread is not None
        if not self._woken:
            self._waiting = thread
            thread.wait(seconds)
            self._waiting = None
        woken, self._woken = self._woken, False
        return woken

    def close(self) -> None:
        """There is nothing to be closed."""


class WorldConfd(Confd):
    """The votes of the master candidates that answer, by the configurations that they have."""

    def __init__(self, world: World, node: str) -> None:
        self._world, self._node = world, node

    @property
    def candidates(self) -> tuple[str, ...]:
        return self._world.copies[self._node].candidates

    def query(
        self, kind: QueryType, query: Query = None, *, all_replies: bool = False
    ) -> list[Reply]:
        world = self._world
        thread = world.clock.thread
        assert thread is not None
        thread.wait(0.01)
        return [
            Reply(name, ReplyStatus.OK, world.copies[name].master, world.copies[name].serial)
            for name in self.candidates
            if world.reach(self._node, name)
        ]


class WorldStore(Store):
    """The records, of which is known when they are read."""

    def __init__(self, daemon: Daemon, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._daemon = daemon

    def read_all(self, *, rewrite: bool = False) -> Records:
        self._daemon.read_at = self._daemon.world.clock.now
        found = super().read_all(rewrite=rewrite)
        if any("that failed" in one.text for one in (*found.faults, *found.notes)):
            self._daemon.read_at = 0
        return found


class Daemon:
    """One process of the daemon."""

    def __init__(self, world: World, node: str, config: Config) -> None:
        self.world, self.node = world, node
        self.process = Process(world.clock, f"maintd on {node}")
        self.config, self._settings = config, config.section(Maintd)
        self._wakeup = WorldWakeup(world.clock)
        self.signals = Signals(self._wakeup)
        self.ended = ""
        """why it has ended; empty while it runs"""
        self.rounds = 0
        self.read_at = 0
        """when it began to read the records last, ns since the epoch; 0: it could not write back
        what others had changed"""
        self.seen: Seen | None = None
        """what it could see when it read the cluster last"""
        self.answers = Answers(world, node)
        self._main = self.process.start(self._run)

    @property
    def fault(self) -> BaseException | None:
        """What it was ended by that nothing expects."""
        return self._main.fault

    def terminate(self) -> None:
        """Send it SIGTERM: what may be interrupted ends at its next step."""
        self.signals.stopping = True
        self._wakeup.wake()

    def _run(self) -> None:
        try:
            voting = Voting(lambda: WorldConfd(self.world, self.node), self.node)
            require_master(voting, self.sleep, lambda reason: None)
            Rounds(self._parts(voting), self._settings, self.signals).run()
            self.ended = "a signal"
        except DaemonStopped:
            self.ended = "a signal"
        except (NotMaster, StewardError) as err:
            self.ended = str(err)
        # Its other threads end with it.
        self.world.clock.after(0, self.process.kill)

    def sleep(self, seconds: float) -> None:
        thread = self.world.clock.thread
        assert thread is not None
        thread.wait(seconds)

    @property
    def _runtime(self) -> Runtime:
        clock = self.world.clock
        return Runtime(
            clock=lambda: self.world.clock_of(self.node),
            monotonic=lambda: clock.now / SECOND,
            sleep=self.sleep,
            start=lambda name, work: self.process.start(work),
        )

    def _parts(self, voting: Voting) -> Parts:
        runtime, disk = self._runtime, self.world.disks[self.node]
        luxi = WorldLuxi(self, runtime.clock)
        store = WorldStore(
            self,
            luxi,
            lambda: KEY,
            clock=runtime.clock,
            holds_creations=lambda: self._settings.hold_creations,
        )
        queue = LuxiQueue(
            luxi,
            store,
            wake=self._wakeup.wake,
            notes=DiskNotes(disk),
            connections=WorldConnections(self.world),
            runtime=runtime,
        )
        return Parts(
            voting=voting,
            current_candidates=lambda: self._addresses(voting.current()),
            store=store,
            queue=queue,
            read_world=partial(self._read_world, luxi),
            read_disks=partial(read_disks, luxi, sleep=self.sleep),
            read_storage=partial(read_storage, luxi, sleep=self.sleep),
            gates=self._gates,
            verify_disks=partial(verify_disks, luxi, sleep=self.sleep),
            read_watcher=WatcherJobs(luxi).read,
            read_words=partial(self._read_words, luxi),
            agents=WorldAgents(
                self.world,
                self.process,
                self._settings,
                runtime,
                self._wakeup.wake,
                self,
            ),
            planner=SitePlanner(self),
            routine_planner=PluginRoutine(self.config),
            step=step,
            releasing=self._releasing(luxi, voting) if self._settings.routine else None,
            observers=self._observers(),
            runtime=runtime,
        )

    def _addresses(self, names: Iterable[str]) -> frozenset[str]:
        """The addresses by which the product knows candidates."""
        pips = {row["name"]: row["pip"] for row in self.world.ganeti.nodes}
        return frozenset(pips[name] for name in names if name in pips)

    def _gates(self, world: Any) -> tuple[str, ...]:
        refused = self.world.faults.of_gate()
        return (*PluginGates(self.config)(world), *([refused] if refused else []))

    def _releasing(self, luxi: WorldLuxi, voting: Voting) -> AtOnce:
        releases = JobReleases(luxi, lambda: self.config, self._runtime.monotonic)
        return AtOnce(releases, voting, lambda: self.signals.stopping)

    def _read_world(self, luxi: WorldLuxi, now: int, *, storage: bool) -> Any:
        before = self.world.checks.seen()
        found = read_world(luxi, now, storage=storage, sleep=self.sleep)
        self.seen = self.world.checks.saw(before)
        return found

    def _read_words(self, luxi: WorldLuxi, world: Any) -> Any:
        before = self.world.checks.seen()
        found = read_words(luxi, world)
        now = both(before, self.world.checks.seen())
        if self.seen:
            self.seen = self.seen._replace(
                paused=now.paused, canceled=now.canceled, excluded=now.excluded
            )
        return found

    def _observers(self) -> Observers:
        audit = WorldAudit(self.world, self.node)
        audit.start(self._runtime.clock())
        history = AuditReport(audit, audit.latest(KEPT))

        def notify(outcome: Round) -> None:
            self.world.checks.reported.notified(self, outcome, history.changes(outcome))

        rounds: dict[str, Observer] = {"the audit log": history, "notifications": notify}
        if self._settings.routine:
            rounds["the status"] = self._status(history)
        rounds["the checks"] = lambda outcome: self._round(outcome, observers.problems)
        disk = self.world.disks[self.node]
        observers = Observers(rounds, {"the recording": lambda *_: disk.check()})
        return observers

    def _status(self, history: AuditReport) -> Observer:
        """Publishes the status, and requests for one of its pages after each round."""
        clock = self._runtime.clock
        pages = StatusApplication(Status(clock(), self._settings.mode), lambda: 600.0, clock)
        paths = cycle(sorted(pages.paths))

        def publish(status: Status) -> None:
            pages.status = status
            path = next(paths)
            answer = pages.paths[path](status)
            good = answer.status in (200, 503)
            self.world.checks.require("no-fault", good, f"{path} answers {answer.status}")

        problems: tuple[Held, ...] = ()
        return StatusReport(
            publish,
            Poll,
            lambda: self._settings.mode,
            lambda: problems,
            history.latest,
            clock(),
            # It would take most of the time of a history.
            lambda _: (),
        )

    def _round(self, outcome: Round, problems: Iterable[Held]) -> None:
        unexpected = [one.sentence for one in problems if "Error: " in one.sentence]
        self.world.checks.require("no-fault", not unexpected, "; ".join(unexpected))
        self.rounds += 1
        self.world.rounds += 1
        self.world.checks.round(self, outcome)
