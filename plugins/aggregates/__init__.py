"""Reserved and licensed hosts: aggregates, who must and must not be in them, reservations.

An aggregate is a named set of node groups, nodes, units of nodes and storage pools.  Modules,
each using those before it:

* `language`: what tags and configuration can say, as values;
* `config`: the section [aggregates]; `membership`: who is in what, and the settings;
  `declarations`: `read_rules(cluster, section)` reads both, with all faults;
* `requirements`: `read_requirements(rules, instance)` reads what an instance requires, with all
  faults;
* `verdict`: allowed, or why not; `verdicts`: `Evaluator(rules, cluster).node(...)` gives that for
  a node;
* `reservations`: free pool and reservations, and which nodes of a pool are taken; `notes`: on an
  answer; `constraint`: the plugin.
"""
