"""The command ``gnt-steward shadow``."""
