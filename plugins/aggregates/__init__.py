"""Reserved and licensed hosts: aggregates, who must and must not be in them, reservations.

An aggregate is a named set of node groups, nodes, units of nodes and storage pools.  Modules,
each using those before it: `expression` (the language), `tags` (its spelling on Ganeti's
objects), `membership` (who is in what, and the settings), `wishes` (what an instance asks),
`verdict` (allowed, or why not), `reservations` (free pool and reservations), `constraint` (the
plugin).
"""
