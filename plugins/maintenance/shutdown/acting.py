"""Carries a shutdown or a bring-up out, step by step, with a line for each; or only prints it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.allocators.jobs.run_jobs import JobRun, run_side_by_side
from ganeti_steward.core.commands.tables import print_lines
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import REASON_SOURCE, Luxi
from ganeti_steward.core.ganeti.snapshot import read_live
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster, Node
from ganeti_steward.core.model.job_state import FINAL, SUCCESS
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason
from ganeti_steward.plugins.maintenance.shutdown.plan import (
    PAUSED_BY_SHUTDOWN,
    BringUp,
    Shutdown,
    answers,
    left_running,
    not_startable,
    own_tags,
    start_job,
    start_stages,
    stop_job,
)
from ganeti_steward.plugins.model import operations
from ganeti_steward.plugins.model.debts import BRING_UP_TAG

#: Seconds between two looks at nodes that are starting.
_BETWEEN: Final = 5.0
#: The same at jobs.
_BETWEEN_JOBS: Final = 1.0
#: What is in the reason trails of the jobs.
SHUTDOWN: Final = "maintenance shutdown"
BRING_UP: Final = "maintenance bring-up"
#: s within which jobs of an earlier run must end; Ganeti ends an instance by force before.
_EARLIER: Final = 600
_REASONS: Final = (SHUTDOWN, BRING_UP)


class Work(NamedTuple):
    """One job and what it does."""

    subject: str
    text: str
    """in words: "stop web1 on node1" """
    job: Job


class Power(NamedTuple):
    """What Ganeti has of the power of a node."""

    program: bool
    """whether it has an out-of-band program"""
    off: bool
    """whether that has switched it off, as Ganeti has recorded"""


#: Of a node that came into the cluster meanwhile.
_NO_POWER: Final = Power(program=False, off=False)


def read_cluster(client: Luxi) -> Cluster:
    """The cluster without what only a job finds out; raises StewardError."""
    return read_live(client, storage=False).cluster


def wait_for_earlier(
    client: Luxi,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until no job of an earlier run can stop or start anything.

    ``clock``: seconds.  Raises StewardError, also where that takes too long.
    """
    before, end = list[int](), clock() + _EARLIER
    while numbers := [
        job.number
        for job in jobs_with_reason(client, REASON_SOURCE)
        if job.status not in FINAL
        and any(reason.text in _REASONS for trail in job.reasons for reason in trail)
    ]:
        if numbers != before:
            listed = ", ".join(map(str, numbers))
            print_lines([f"waiting for jobs of an earlier run, see gnt-job list: {listed}"])
            sys.stdout.flush()
        before = numbers
        if clock() >= end:
            raise StewardError(
                f"jobs of an earlier run have not ended within {_EARLIER} s: {listed}; gnt-job "
                "info shows what they wait for, gnt-job cancel ends those that have not begun"
            )
        sleep(_BETWEEN_JOBS)


def read_powers(client: Luxi) -> Mapping[str, Power]:
    """Name of each node -> its power; raises StewardError."""
    found = {}
    for row in client.rows("node", ("name", "powered", "ndparams")):
        program = (row["ndparams"] or {}).get("oob_program")
        found[row["name"]] = Power(bool(program), row["powered"] is False)
    return found


class Acting:
    """What both have in common."""

    def __init__(
        self,
        client: Luxi,
        reason: str,
        at_once: int,
        interrupts: Callable[[], int],
        *,
        dry: bool,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``reason``: in the jobs' reason trails; ``at_once``: jobs at the same time.

        ``interrupts`` counts how often the user pressed Ctrl-C; ``dry``: nothing is done, every
        step is printed; ``clock``: seconds.
        """
        self.dry = dry
        self.failures: list[str] = []
        """what could not be done, a sentence each"""
        self._client, self._reason, self._at_once = client, reason, at_once
        self._interrupts, self._sleep, self._clock = interrupts, sleep, clock

    def say(self, line: str) -> None:
        """Print a line at once."""
        print_lines([line])
        sys.stdout.flush()

    def fail(self, sentence: str) -> None:
        """Note and print what could not be done."""
        self.failures.append(sentence)
        self.say(sentence)

    def read(self) -> Cluster:
        """The cluster as it is now; raises StewardError."""
        return read_cluster(self._client)

    def do(self, works: Sequence[Work]) -> Mapping[str, Sequence[Any]]:
        """Run jobs side by side; the results of those that succeed, by their subjects.

        The others are failures.  Raises StewardError when jobs are not waited for any more.
        """
        if self.dry:
            print_lines(work.text for work in works)
            return {work.subject: () for work in works}
        texts = {id(work.job): work.text for work in works}

        def report(run: JobRun) -> None:
            numbers = "/".join(map(str, run.numbers)) or "-"
            error = f" ({run.error})" if run.over and run.error else ""
            self.say(f"job {numbers} {texts[id(run.job)]}: {run.status}{error}")

        done = run_side_by_side(
            self._client,
            [work.job for work in works],
            self._at_once,
            reason=self._reason,
            report=report,
            interrupts=self._interrupts,
            sleep=self._sleep,
        )
        if done.trouble:
            raise StewardError(f"jobs are not waited for any more: {done.trouble}")
        for run, work in zip(done.runs, works, strict=False):
            if run.over and run.status != SUCCESS:
                self.failures.append(f"failed: {work.text}: {run.error or run.status}")
        self.check()
        numbers = {
            run.numbers[0]: work.subject
            for run, work in zip(done.runs, works, strict=True)
            if run.status == SUCCESS
        }
        return {numbers[state.number]: state.results for state in self._client.states([*numbers])}

    def check(self) -> None:
        """Raise StewardError after Ctrl-C."""
        if self._interrupts():
            raise StewardError("interrupted; the same command goes on from here")

    def switch(self, nodes: Iterable[Node], *, on: bool) -> None:
        """Have the out-of-band programs of nodes run."""
        command, word = ("power-on", "on") if on else ("power-off", "off")
        works = []
        for name in (node.name for node in nodes):
            job = [operations.out_of_band(name, command)]
            works.append(Work(name, f"switch {name} {word}", job))
        for name, results in self.do(works).items():
            if not self.dry and not _has_worked(results):
                self.fail(f"{name} is not switched {word}: its out-of-band program has failed")

    def wait_for(self, names: Collection[str], limit: float) -> None:
        """Wait until the node daemons of nodes answer, or for so many seconds."""
        began, before = self._clock(), set[str]()
        while not self.dry:
            silent = self._silent(names)
            waited = self._clock() - began
            if not silent or waited >= limit:
                break
            if silent != before:
                left = f"{limit - waited:.0f} s at most; if it stays so, look at the console"
                self.say(f"waiting for the node daemon of {', '.join(sorted(silent))}, {left}")
            before = silent
            self.check()
            self._sleep(min(_BETWEEN, limit - waited))

    def _silent(self, names: Collection[str]) -> set[str]:
        try:
            rows = self._client.rows("node", ("name", "mtotal"))
        except StewardError as err:
            # luxid may be restarting.
            self.say(f"the nodes cannot be read: {err}")
            return set(names)
        return {row["name"] for row in rows if row["mtotal"] is None} & set(names)


def _has_worked(results: Sequence[Any]) -> bool:
    """Whether Ganeti has a valid answer of the out-of-band program of the only node."""
    try:
        ((((_, _), (status, _)),),) = results
    except (TypeError, ValueError):
        return False
    return bool(status == 0)


def shut_down(
    acting: Acting, plan: Shutdown, powers: Mapping[str, Power], timeout: int | None
) -> None:
    """Stop instances in their order, then switch nodes off; raises StewardError.

    ``timeout``: seconds for each instance; None: Ganeti's own limit.
    """
    tags = [operations.set_tags("node", node.name, [BRING_UP_TAG]) for node in plan.nodes]
    pause = operations.set_tags("cluster", "", [PAUSED_BY_SHUTDOWN])
    text = f"pause the maintenance daemon, and set the tag {BRING_UP_TAG} on the nodes"
    acting.do([Work("", text, [pause, *tags])])
    if acting.failures:
        raise StewardError(f"nothing was stopped; {acting.failures[0]}")
    for one in plan.unreached:
        acting.fail(f"{one.name} is not stopped: {one.primary} does not answer")
    for order, instances in plan.stages.items():
        acting.say(f"Stopping {counted(len(instances), 'instance')} of order {order}.")
        acting.do(
            [
                Work(one.name, f"stop {one.name} on {one.primary}", stop_job(one, order, timeout))
                for one in instances
            ]
        )
    # Ganeti's job to stop an instance may fail, or others may have started one meanwhile.
    now = acting.read()
    _switch_off(acting, plan, powers, now, {} if acting.dry else left_running(now))


def _switch_off(
    acting: Acting,
    plan: Shutdown,
    powers: Mapping[str, Power],
    now: Cluster,
    running: Mapping[str, Sequence[str]],
) -> None:
    by_program, by_hand, masters = list[Node](), list[str](), list[str]()
    names = {node.name for node in plan.nodes}
    for node in (one for one in now.nodes if one.name in names):
        name, power = node.name, powers.get(node.name, _NO_POWER)
        stuck = [one.name for one in plan.unreached if one.primary == name]
        if found := [*running.get(name, ()), *stuck]:
            acting.fail(f"{name} stays on: {', '.join(found)} may still run there")
        elif node.master:
            masters.append(name)
        elif answers(node) and not power.program:
            by_hand.append(name)
        elif answers(node):
            by_program.append(node)
        elif power.program and not power.off:
            acting.fail(f"{name} stays on: it does not answer, so what runs there is not known")
    # Ganeti writes its configuration to the master candidates, so they are last.
    by_program.sort(key=lambda node: (node.master_candidate is True, node.name))
    acting.switch(by_program, on=False)
    for name in by_hand:
        acting.say(f"{name} has no out-of-band program; to switch it off: ssh {name} poweroff")
    for name in masters:
        how = "type there: poweroff, when all others are off"
        if plan.others_stay:
            how = "first make another node the master: gnt-cluster master-failover there"
        acting.say(f"{name} is the master and stays on; to switch it off, {how}")


def bring_up(acting: Acting, plan: BringUp, powers: Mapping[str, Power], limit: float) -> None:
    """Switch nodes on, start what ran, and remove the tags; raises StewardError.

    ``limit``: seconds until the node daemons answer.
    """
    present, by_program = [node for node in plan.nodes if not node.offline], list[Node]()
    for node in present:
        power = powers.get(node.name, _NO_POWER)
        if power.program and (power.off or not answers(node)):
            by_program.append(node)
        elif not answers(node):
            acting.say(f"{node.name} has no out-of-band program: switch it on by hand")
    acting.switch(by_program, on=True)
    names = {node.name for node in present if node.vm_capable}
    if names:
        acting.say(f"Waiting until the node daemons answer, for {limit:g} s at most.")
    acting.wait_for(names, limit)
    cluster = acting.read()
    for order, instances in start_stages(plan.instances).items():
        acting.say(f"Starting {counted(len(instances), 'instance')} of order {order}.")
        acting.do([work for one in instances if (work := _start(acting, one.name, cluster))])
    _take_back(acting, plan, cluster)


def _start(acting: Acting, name: str, cluster: Cluster) -> Work | None:
    """How an instance is started; None: it is gone, or cannot be started."""
    one = cluster.instances_by_name.get(name)
    if one is None or not own_tags(one.tags):
        return None
    why = "" if acting.dry else not_startable(one, cluster)
    if why:
        acting.fail(f"{name} is not started: {why}")
        return None
    return Work(name, f"start {name} on {one.primary}", start_job(one))


def _take_back(acting: Acting, plan: BringUp, cluster: Cluster) -> None:
    """Remove the tags of nodes that answer, and the pause once all do."""
    works, names = [], {node.name for node in plan.nodes}
    for node in (one for one in cluster.nodes if one.name in names):
        name = node.name
        if not (acting.dry or node.offline or answers(node)):
            acting.fail(f"{name} does not answer: look at its console, and run bring-up again")
        elif tags := own_tags(node.tags):
            job = [operations.remove_tags("node", name, tags)]
            works.append(Work(name, f"take back {name}", job))
    acting.do(works)
    now = acting.read()
    waiting = [node.name for node in now.nodes if own_tags(node.tags)]
    if PAUSED_BY_SHUTDOWN not in now.tags:
        return
    if waiting and not acting.dry:
        acting.say(f"The maintenance daemon stays paused: {', '.join(waiting)} not taken back.")
        return
    job = [operations.remove_tags("cluster", "", [PAUSED_BY_SHUTDOWN])]
    acting.do([Work("", "end the pause of the maintenance daemon", job)])
