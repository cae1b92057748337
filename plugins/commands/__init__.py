"""The commands of the built-in policies; `ganeti_steward.core.cli` finds them by name."""
