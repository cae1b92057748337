"""What the tags below ``steward:`` and the configuration say about aggregates: values and parsing.

Nothing here knows a cluster.  `expression`: what an instance must be in; `roles`: the roles a value
may be for; `soft`: what it should rather be in; `automatic`: what it requests by what it is;
`entitlement`: who may request an aggregate; `until`: its last day; `tags`: the spelling on Ganeti's
objects.
"""
