"""Something that goes wrong at a time, and what goes wrong at this moment.

A history is a seed and its faults: any of them can be left out, and the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fault_world.luxid import Behaviour
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE

if TYPE_CHECKING:
    from fault_world.world import World


#: Kinds of faults that lose answers -> the calls whose answers they lose.
_LOSING: Final[Mapping[str, tuple[str, ...]]] = {
    "lost-submissions": ("SubmitManyJobs",),
    "records-fail": ("ReplaceFilter", "DeleteFilter"),
}


#: luxid's error of a job whose process has ended before it.
CUT: Final = "Job process died unexpectedly"


class Fault(NamedTuple):
    """Something that happens at a time."""

    at: float
    """seconds after the start"""
    kind: str
    """a key of `fault_world.kinds.KINDS`"""
    subject: str = ""
    """name of a node or an instance"""
    lasts: float = 0.0
    """seconds"""
    detail: str = ""
    """depends on the kind"""


class Surprise(NamedTuple):
    """What happens in the middle of the next call of a method, once."""

    method: str
    """of luxid, or `_SUBMIT`, `COMMAND` or `POWER_OFF`"""
    how: Behaviour = Behaviour()
    faults: tuple[Fault, ...] = ()
    """they happen then; their times are seconds from the begin of the call"""


#: Jobs of a repair are handed over; others are handed over all the time, to look at disks.
_SUBMIT: Final = "submission"
_WRITE: Final = "ReplaceFilter"
_LATE: Final = Behaviour(late=40, after=40, lost=True)
_KILLED: Final = (Fault(1, "daemon-killed"),)
_REACHED: Final = (Fault(1, "master-left-behind", "", 600, "reached"),)
#: A daemon goes on long after its record was written, and is not the master's any more.
_LEFT_STOPPED: Final = (
    Fault(1, "daemon-stopped", "", 20),
    Fault(4, "master-left-behind", "", 600, "agents-only"),
)
_CUT_OFF: Final = (Fault(1, "master-left-behind", "", 600, "cut-off"),)
#: A repair command of an agent.
COMMAND: Final = "command"
#: A node is switched off by Ganeti's out-of-band program.
POWER_OFF: Final = "power-off"
#: For the node that is under repair then.
_REPAIRED: Final = "the repaired"
#: Its instances.
_ITS_INSTANCES: Final = "the instances of the repaired"
#: What is stored late waits for a job whose number is higher.
_LOCKED_AND_DELETED: Final = (
    Fault(0.5, "locks-held", _ITS_INSTANCES),
    Fault(1, "record-deleted"),
)
_UNREACHED: Final = (
    Fault(1, "agent-silent", _REPAIRED, 1800),
    Fault(1, "noded-hangs", _REPAIRED, 1800),
)
_SILENT: Final = (Fault(1, "agent-silent", _REPAIRED, 150),)
_OFF: Final = (Fault(1, "loses-power", _REPAIRED, 1800),)
#: It runs again, and cannot be reached, while the daemon has to wait.
_SWITCHED_ON: Final = (
    Fault(0, "paused", "", 620),
    Fault(60, "loses-power", _REPAIRED, 10),
    Fault(120, "watcher-runs"),
    Fault(140, "noded-hangs", _REPAIRED, 1800),
)

#: What can happen in the middle of something; by chance it hardly ever does.
SURPRISES: Final[Mapping[str, Surprise]] = {
    "killed-while-stored-late": Surprise(_SUBMIT, _LATE, _KILLED),
    "deleted-while-stored-late": Surprise(
        _SUBMIT, Behaviour(late=150, after=150, lost=True), _LOCKED_AND_DELETED
    ),
    "master-left-while-stored-late": Surprise(_SUBMIT, _LATE, _REACHED),
    "archived-before-the-answer": Surprise(
        _SUBMIT, Behaviour(after=25, lost=True), (Fault(1, "archived-at-once", "", 300),)
    ),
    "archived-while-stopped": Surprise(
        _SUBMIT,
        Behaviour(after=2, lost=True),
        (Fault(1, "daemon-stopped", "", 200), Fault(1, "archived-at-once", "", 300)),
    ),
    "answer-lost": Surprise(_SUBMIT, Behaviour(lost=True)),
    "answer-late": Surprise(_SUBMIT, Behaviour(after=130)),
    "never-taken": Surprise(_SUBMIT, Behaviour(never=True)),
    "killed-before-it-is-taken": Surprise(_SUBMIT, Behaviour(before=20), _KILLED),
    "unreached-when-it-is-emptied": Surprise(_SUBMIT, Behaviour(), _UNREACHED),
    "off-when-it-is-emptied": Surprise(_SUBMIT, Behaviour(), _OFF),
    "killed-while-recorded": Surprise(_WRITE, Behaviour(before=3), _KILLED),
    "record-not-written": Surprise(_WRITE, Behaviour(never=True)),
    "record-answer-lost": Surprise(_WRITE, Behaviour(lost=True)),
    "deposed-while-recorded": Surprise(_WRITE, Behaviour(after=3), _CUT_OFF),
    "outvoted-while-recorded": Surprise(_WRITE, Behaviour(after=3), _REACHED),
    "stopped-and-deposed-once-recorded": Surprise(_WRITE, Behaviour(after=2), _LEFT_STOPPED),
    "silent-once-recorded": Surprise(_WRITE, Behaviour(after=2), _SILENT),
    "paused-once-it-is-off": Surprise(POWER_OFF, Behaviour(), _SWITCHED_ON),
    "killed-in-a-command": Surprise(COMMAND, Behaviour(), _KILLED),
    "off-in-a-command": Surprise(COMMAND, Behaviour(), (Fault(0, "loses-power", _REPAIRED, 30),)),
}


class Faults:
    """What is wrong at this moment."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.active: list[Fault] = []

    def end(self, fault: Fault) -> None:
        """It is over, if it was not before."""
        if fault in self.active:
            self.active.remove(fault)

    def _now(self, kind: str, subject: str = "") -> Fault | None:
        found = (one for one in self.active if one.kind == kind and subject in ("", one.subject))
        return next(found, None)

    def of_call(self, method: str, request: bytes = b"") -> Behaviour:
        """How a call to luxid goes that begins now."""
        if not self.active:
            return Behaviour()
        submits = SUBMISSION_SOURCE.encode() in request
        if surprise := self.surprise(_SUBMIT if submits else method):
            return surprise.how
        how, draw = Behaviour(), self._world.draw
        if slow := self._now("slow-calls"):
            how = how._replace(before=draw("slow").uniform(0, float(slow.detail)))
        if lossy := self._losing(method):
            random = draw("lost")
            share, _, never = lossy.detail.partition(",")
            fails = random.random() < float(share)
            done = not never and random.random() < 0.7
            how = how._replace(lost=fails and done, never=fails and not done)
        late = self._now("late-storing")
        if late and method == "SubmitManyJobs":
            random = draw("late")
            seconds = random.uniform(0, float(late.detail))
            # luxid closes the connection of a call at the end of the call, and not before.
            lost = random.random() < 0.5
            return how._replace(late=seconds, after=seconds, lost=lost, never=False)
        return how

    def surprise(self, method: str) -> Surprise | None:
        """What happens in the middle of this call; see `Surprise`."""
        for fault in self.active:
            if fault.kind == "surprise" and SURPRISES[fault.detail].method == method:
                self.end(fault)
                found = SURPRISES[fault.detail]
                for one in found.faults:
                    self._world.clock.after(one.at, partial(self._happen, one))
                return found
        return None

    def _happen(self, fault: Fault) -> None:
        records = [record for _, record in self._world.records()]
        repaired = {one["node"] for one in records if one["status"] == "pending"}
        rows = self._world.ganeti.nodes
        nodes = [row["name"] for row in rows if row["uuid"] in repaired][:1]
        its = [row["name"] for node in nodes for row in self._world.ganeti.on(node)]
        for subject in {_REPAIRED: nodes, _ITS_INSTANCES: its}.get(fault.subject, [""]):
            self._world.happen(fault._replace(subject=subject))

    def _losing(self, method: str) -> Fault | None:
        """Because of what the answer to a call may be lost."""
        found = (one for one in self.active if method in _LOSING.get(one.kind, ()))
        return self._now("lost-answers") or next(found, None)

    def keeps_power(self) -> bool:
        """Whether nodes that are switched off stay on."""
        return self._now("power-stays") is not None

    def has_no_effect(self) -> bool:
        """Whether operations succeed and change nothing."""
        return self._now("no-effect") is not None

    def of_operation(self, operation: Mapping[str, Any]) -> str:
        """Why an operation fails; empty: it does not for a reason of its own."""
        if self._now("jobs-cut"):
            return CUT
        fault = self._now("failing-operations")
        if fault and self._world.draw("operation fails").random() < float(fault.detail):
            return "it failed for a reason of its own"
        return ""

    def of_report(self, node: str) -> str:
        """What is wrong with a report; empty: nothing."""
        fault = self._now("wrong-reports", node)
        return fault.detail if fault else ""

    def stalls(self) -> bool:
        """Whether disks are not synchronized."""
        return self._now("resync-stalls") is not None

    def of_plugin(self) -> str:
        """What a plugin of the site does wrong; empty: there is none."""
        fault = self._now("plugin-fails")
        return fault.detail if fault else ""

    def of_gate(self) -> str:
        """Why a plugin of the site does not agree to maintenance; empty: it does."""
        return "the site does not agree" if self._now("gate-refuses") else ""

    def of_agent(self) -> float:
        """Seconds from an agent's answer until it arrives."""
        fault = self._now("late-agents")
        return float(fault.detail) if fault else 0.0

    def loses_answer(self) -> bool:
        """Whether an agent's answer is lost."""
        fault = self._now("lost-answers")
        return bool(fault) and self._world.draw("agent answer").random() < 0.5

    def of_command(self) -> str:
        """How a repair command ends: succeed, fail or hang; empty: that is drawn.

        With ``refuse`` an agent does not make its node the master.
        """
        fault = self._now("commands-end")
        return fault.detail if fault else ""
