"""The commands ``gnt-steward aggregate`` and ``gnt-steward reserve``."""
