"""What a repair wants to be done next, and why something is not done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.opcodes import Job

#: The mark of a wait for the work on a node under maintenance.
READY: Final = "ready"
#: That of one that cannot go on before a person does something; and the same for so long that its
#: node is in service again: as if it had not begun.
BLOCKED: Final = "blocked"
GIVEN_BACK: Final = "given-back"

#: The steps of the built-in repairs; a plugin may use other words.
COMMAND: Final = "command"
DRAIN: Final = "drain"
MOVE: Final = "move"
FINAL_ROLE: Final = "final-role"
CLOSE: Final = "close-volume"
REPLACE_DISKS: Final = "replace-disks"
REPAIR_STORAGE: Final = "repair-storage"
OPEN: Final = "open-volume"
POWER_OFF: Final = "power-off"
POWER_STATUS: Final = "power-status"
ACTIVATE: Final = "activate-disks"
CLEAN_UP: Final = "clean-up"
START: Final = "start"
STOP: Final = "stop"
HOME: Final = "home"
WORK: Final = "work"
MASTER_FAILOVER: Final = "master-failover"
BEFORE: Final = "before"
AFTER: Final = "after"
MASTER_BEFORE: Final = "master-before"
MASTER_AFTER: Final = "master-after"
UNDRAIN: Final = "take-back"
TIDY: Final = "tidy"
TAG: Final = "tag"
UNTAG: Final = "untag"

#: Commands around the work on a node: each is run once and has to end well.
AROUND: Final = frozenset({BEFORE, AFTER, MASTER_BEFORE, MASTER_AFTER})

#: Steps for one instance each that only make its move possible.
PREPARATIONS: Final = frozenset({ACTIVATE, CLEAN_UP, START})

#: Steps after the repair itself: a failure of one is no failure of the repair.
AFTERWARDS: Final = frozenset({TAG, UNTAG, OPEN})


class Task(NamedTuple):
    """What one round does for one incident: Ganeti jobs, or one repair command of a node.

    Its nodes and instances are reserved from the round it is started in until it has ended: no
    other task of the daemon uses any of them in that time.  Its jobs may run at the same time
    unless they depend on each other (``depends``).
    """

    step: str
    """what it does, in one word"""
    nodes: frozenset[str]
    """names of all nodes it uses, the incident's node included"""
    instances: frozenset[str]
    """names of all instances it uses"""
    reason: str
    """one sentence: what is done and why"""
    jobs: Sequence[Job] = ()
    """each a list of operations; empty when ``command`` is set"""
    command: str = ""
    """a repair command (base name) that the agent of the incident's node runs"""
    agent: str = ""
    """name of another node whose agent runs it: the master, or the one that becomes the master"""
    subject: str = ""
    """what a task of routine work is about: an instance, a node group, ...; empty: the cluster"""
    each: tuple[str, ...] = ()
    """one instance for each of the jobs: a job that fails is a failed attempt for its instance
    (`Incident.attempts`); empty: a job that fails is the incident's failure"""
    shares_nodes: bool = False
    """whether a task of routine work may use nodes that other tasks of its plugin use"""


class Done(NamedTuple):
    """Nothing is left to be done for the incident: it has succeeded."""

    reason: str
    """one sentence"""


class Failed(NamedTuple):
    """The incident has failed: nothing more is done for it."""

    reason: str
    """one sentence"""
    unmovable: tuple[tuple[str, str], ...] = ()
    """instances that could not be moved, each with the reason"""


class Wait(NamedTuple):
    """Nothing can be done now, and it is no failure."""

    reason: str
    """one sentence, with numbers where there are any"""
    subject: str = ""
    """what routine work leaves out: an instance, a node group, ...; empty: the cluster"""
    mark: str = ""
    """what a plugin of routine work wants to recognize in the next round, see `World.marked`; of a
    maintenance `READY`, `BLOCKED` or `GIVEN_BACK`"""
    since: int = 0
    """as `Held.since`"""
    until: int = 0
    """as `Held.until`"""


#: The answer of a plugin for one incident.
Plan = Task | Done | Failed | Wait

#: What a plugin of routine work returns.
RoutinePlan = Task | Wait


class Held(NamedTuple):
    """Something that was not done, and what held it."""

    subject: str
    """the incident's or filter rule's uuid, the name of a node, plugin or instance, or
    ``cluster``; of routine work its plugin and what it is about, with a blank between"""
    brake: str
    """one word, the same for the same cause: ``observe``, ``hold``, ``pause``, ..."""
    sentence: str
    """with numbers where there are any"""
    values: tuple[tuple[str, Any], ...] = ()
    """the numbers by name, for programs"""
    since: int = 0
    """since when, ns since the epoch; 0: not known to who says it"""
    until: int = 0
    """when it ends at the latest, ns since the epoch; 0: that depends on others"""
