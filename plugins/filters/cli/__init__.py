"""The command `gnt-steward filter`: each of its subcommands is a module."""
