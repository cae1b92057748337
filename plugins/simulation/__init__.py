"""The daemon's own rounds on a cluster that exists only in memory, with failures from a seed."""
