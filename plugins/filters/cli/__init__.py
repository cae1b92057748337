"""The command `gnt-steward filter`."""
