"""What must hold after every effect, whatever has gone wrong: `Checks` has it all checked.

`docs/explanation/invariants.md` has an overview.
"""

from fault_world.checks.checks import Checks
from fault_world.checks.invariants import INVARIANTS, Broken
from fault_world.checks.texts import record_of

__all__ = ("INVARIANTS", "Broken", "Checks", "record_of")
