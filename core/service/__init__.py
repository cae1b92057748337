"""What long-running processes need from the system: locked memory, logs, child processes.

Nothing in here knows about Ganeti or about plugins.
"""
