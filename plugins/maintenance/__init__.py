"""The maintenance daemon: node reports become incidents, incidents become careful Ganeti jobs.

``engine`` decides and is pure; ``repairs`` are the built-in plugins that plan the next task of an
incident; ``edges`` talk to node agents, luxid and the disk; ``daemon`` is the loop; ``cli`` has
the commands.  Diagnosing a node is not here: that is `ganeti_steward.diagnose`.
"""
