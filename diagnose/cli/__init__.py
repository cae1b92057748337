"""The commands ``gnt-steward diagnose`` and ``gnt-steward agent``."""
