"""The commands `gnt-steward incident` and `gnt-steward maintd`."""
