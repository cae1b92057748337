"""``gnt-steward demo``: a small cluster with failing hardware, played on this machine.

Agents, daemon and allocator are the real ones.  The cluster itself (luxid, confd, the instances) is
the simulation's, served where the real ones would answer.
"""
