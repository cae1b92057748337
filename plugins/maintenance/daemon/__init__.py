"""The life of the daemon: its rounds, and start, reload and end of the process."""
