"""Routine work: its plugins are called here, and its jobs are read back from the queue."""
