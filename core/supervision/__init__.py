"""Running foreign programs below a process that ends everything they start.

What a program is (a command of a whitelist, a plugin, an allocator) is decided by the caller.
"""
