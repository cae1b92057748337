"""``gnt-steward maintenance``: its sub-commands, and what they have in common."""
