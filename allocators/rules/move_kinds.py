"""The kinds of move of an existing instance: one table that all of Steward reads (allocation 4.4).

A kind of move is a sequence of steps and an end state.  The rules of each kind are in
`move_rules`, the operations of the steps in `core.model.opcodes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.allocators.jobs.operations import failover, migrate, replace_secondary
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import NodePair


class MoveStep(NamedTuple):
    """One step of a move."""

    text: str
    """for explanations"""
    failed_over: str
    """the same for an instance that Ganeti fails over"""
    copies: bool
    """whether the disks are copied"""


FAILOVER_STEP: Final = "F"
REPLACE_STEP: Final = "R"
MOVE_STEP: Final = "M"

#: Letter of a step -> the step.  In Ganeti's jobs a failover is a migration, where it can be one.
STEPS: Final = {
    FAILOVER_STEP: MoveStep("migrate to the secondary", "fail over to the secondary", copies=False),
    REPLACE_STEP: MoveStep("replace the secondary", "replace the secondary", copies=True),
    MOVE_STEP: MoveStep("migrate", "fail over", copies=False),
}

#: Where a node of the end state comes from: positions in (primary, secondary, targets ...).
_PRIMARY, _SECONDARY, _TARGET, _OTHER, _NONE = range(5)


class MoveKind(NamedTuple):
    """One kind of move."""

    name: str
    """htools' name, where htools has the move"""
    steps: str
    """letters of `STEPS` in the order in which they are done"""
    primary: int
    """where the final primary comes from"""
    secondary: int
    """where the final secondary comes from"""

    @property
    def copies(self) -> int:
        """How often the disks are copied."""
        return self.steps.count(REPLACE_STEP)

    @property
    def secondary_is_new(self) -> bool:
        """Whether the target becomes the secondary."""
        return self.secondary == _TARGET

    def text(self, instance: Instance) -> str:
        """The steps as a sentence, as Ganeti does them with this instance."""
        steps = (STEPS[step] for step in self.steps)
        return ", then ".join(
            step.failed_over if instance.fails_over else step.text for step in steps
        )

    def place(self, primary: Any, secondary: Any, target: Any) -> tuple[Any, Any]:
        """The final primary and secondary, of numbers or of arrays, with one target at most."""
        nodes = (primary, secondary, target)
        return nodes[self.primary], nodes[self.secondary]


#: External storage: to any node.
MOVE: Final = MoveKind("failover-to-any", "M", _TARGET, _NONE)
FAILOVER: Final = MoveKind("failover", "F", _SECONDARY, _PRIMARY)
REPLACE_SECONDARY: Final = MoveKind("replace-secondary", "R", _PRIMARY, _TARGET)
REPLACE_AND_FAILOVER: Final = MoveKind("replace-and-failover", "RF", _TARGET, _PRIMARY)
FAILOVER_AND_REPLACE: Final = MoveKind("failover-and-replace", "FR", _SECONDARY, _TARGET)
REPLACE_PRIMARY: Final = MoveKind("replace-primary", "FRF", _TARGET, _SECONDARY)
#: Two new nodes; htools has no names for these.
REPLACE_BOTH: Final = MoveKind("replace-both", "RFR", _TARGET, _OTHER)
FAILOVER_AND_REPLACE_BOTH: Final = MoveKind("failover-and-replace-both", "FRFR", _TARGET, _OTHER)

#: The moves of a drbd instance to at most one new node, in the order balancing prefers them.
DRBD_MOVES: Final = (
    REPLACE_SECONDARY,
    REPLACE_AND_FAILOVER,
    FAILOVER_AND_REPLACE,
    REPLACE_PRIMARY,
    FAILOVER,
)
#: The moves of a drbd instance to two new nodes.
TO_TWO_NODES: Final = (REPLACE_BOTH, FAILOVER_AND_REPLACE_BOTH)


def kind_between(now: NodePair, then: NodePair) -> MoveKind | None:
    """The move from one place to another that shares a node with it; None: they share none."""
    primary, secondary = now
    if secondary < 0:
        return MOVE
    if then == (secondary, primary):
        return FAILOVER
    if then[0] == primary:
        return REPLACE_SECONDARY
    if then[1] == primary:
        return REPLACE_AND_FAILOVER
    if then[0] == secondary:
        return FAILOVER_AND_REPLACE
    return REPLACE_PRIMARY if then[1] == secondary else None


def job(instance: Instance, kind: MoveKind, primary: str, secondary: str) -> Job:
    """The operations of a move to these final nodes, ``secondary`` empty without one.

    A forthcoming instance is failed over: nothing runs that could migrate.
    """
    over = failover if instance.forthcoming else migrate
    if kind is MOVE:
        return [over(instance.name, primary)]
    operations = []
    for at, step in enumerate(kind.steps):
        if step == FAILOVER_STEP:
            operations.append(over(instance.name))
        else:
            # A copy that is followed by a failover makes the final primary.
            followed = FAILOVER_STEP in kind.steps[at:]
            operations.append(replace_secondary(instance.name, primary if followed else secondary))
    return operations
