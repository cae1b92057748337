"""Child processes: running programs with limits, and below supervisors that leave nothing running.

What a program is (a command of a whitelist, a plugin, an allocator) is decided by the caller.
"""
