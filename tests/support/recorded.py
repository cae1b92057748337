"""A machine as it was recorded; it is part of the product, for the tests of vendors."""

from ganeti_steward.diagnose.recorded import RecordedMachine

__all__ = ["RecordedMachine"]
