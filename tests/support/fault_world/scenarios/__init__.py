"""Scenario files: a cluster, what happens to it and when, and the narrative that is expected."""
