"""What the daemon is going to do, to the end: steps, times, and a script."""
