"""Reserved and licensed hosts: aggregates, who must and must not be in them, reservations.

An aggregate is a named set of node groups, nodes, units of nodes and storage pools.  Modules,
each using those before it:

* `expression`: the language; `roles`: whom a value may be for; `tags`: its spelling on
  Ganeti's objects;
* `config`: the section [aggregates]; `membership`: `read_rules(cluster, section)` reads who is
  in what and the settings, with all faults; `members`: the aggregates there are;
* `requirements`: `read_wishes(rules, instance)` reads what an instance asks, with all faults;
* `verdict`: allowed, or why not; `evaluator`: `Judge(rules, cluster).node(asked.wishes,
  instance.template, node, role)` says that of a node;
* `reservations`: free pool and reservations; `constraint`: the plugin.
"""
