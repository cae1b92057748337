"""``gnt-steward simulate`` and ``gnt-steward demo``."""
