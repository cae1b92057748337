"""Access to a running Ganeti: luxid on the master, RAPI from other machines, signed messages."""
