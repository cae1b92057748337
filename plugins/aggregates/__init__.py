"""Reserved and licensed hosts: aggregates, who must and must not be in them, reservations.

An aggregate is a named set of node groups, nodes, units of nodes and storage pools.  Modules,
each using those before it:

* `expression`: the language; `roles`: the roles a value may be for; `tags`: its spelling on
  Ganeti's objects;
* `config`: the section [aggregates]; `membership`: who is in what, and the
  settings; `declarations`: `read_rules(cluster, section)` reads both, with all faults; `members`:
  the aggregates with their members;
* `requirements`: `read_requirements(rules, instance)` reads what an instance requires, with all
  faults;
* `verdict`: allowed, or why not; `known`, `verdicts`, `evaluator`: `Evaluator(rules,
  cluster).node(...)` gives that for a node;
* `reservations`: free pool and reservations; `notes`: on an answer; `constraint`: the plugin.
"""
