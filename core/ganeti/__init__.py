"""The way to a running Ganeti: luxid on the master, RAPI from elsewhere."""
