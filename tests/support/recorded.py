"""A machine as it was recorded; it is part of the product, for the tests of vendors."""

from ganeti_steward.diagnose.testing import RecordedMachine

__all__ = ["RecordedMachine"]
