"""The kinds of move of an existing instance, as sequences of Ganeti's steps (allocation 4.4).

A kind of move is written as letters: ``F`` is a failover (in Ganeti's jobs a migration) to the
secondary, ``R`` replaces the secondary, which copies the disks, and ``M`` moves an instance on
external storage.  ``RF`` goes to a new node and leaves the old primary as secondary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.state.state import Resident
from ganeti_steward.core.model.opcodes import Job, failover, migrate, replace_secondary

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.demand import Demand

MOVE: Final = "M"
FAIL_OVER: Final = "F"
REPLACE: Final = "R"
REPLACE_FAIL_OVER: Final = "RF"
FAIL_OVER_REPLACE: Final = "FR"
FAIL_OVER_REPLACE_BACK: Final = "FRF"
TWO_COPIES: Final = "RFR"
TWO_COPIES_FIRST_OVER: Final = "FRFR"


class Mover(NamedTuple):
    """An instance that is to be moved, and where it is now."""

    demand: Demand
    primary: int
    secondary: int
    """-1 without one"""
    terms: Terms

    @property
    def resident(self) -> Resident:
        """As the state knows it before it moves."""
        return Resident(self.demand, self.primary, self.secondary)


def job(mover: Mover, kind: str, primary: str, secondary: str) -> Job:
    """The operations of a kind of move to these final nodes, ``secondary`` empty without one.

    An instance that is only announced is failed over, nothing runs that could migrate.
    """
    instance = mover.demand.instance
    over = failover if instance.forthcoming else migrate
    if kind == MOVE:
        return [over(instance.name, primary)]
    operations = []
    for at, step in enumerate(kind):
        if step == FAIL_OVER:
            operations.append(over(instance.name))
        else:
            # A copy that is followed by a failover makes the final primary.
            followed = FAIL_OVER in kind[at:]
            operations.append(replace_secondary(instance.name, primary if followed else secondary))
    return operations
