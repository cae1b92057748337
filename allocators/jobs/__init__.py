"""Jobs as a list of commands or of steps, cut into sets that can run at a time, and running them.

What decides which jobs there are is in `moves` and `balancing`.
"""
