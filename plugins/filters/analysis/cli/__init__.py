"""Subcommands that only read: what is wrong with rules, and what they do to jobs."""
