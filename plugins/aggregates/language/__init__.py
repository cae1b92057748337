"""What the tags below ``steward:`` and the configuration say about aggregates: values and parsing.

Nothing here knows a cluster.  `expression`: what an instance must be in, and the roles a value may
be for; `requests`: what it should rather be in, and what it requests by what it is; `limits`: who
may request an aggregate, and its last day; `tags`: the spelling on Ganeti's objects.
"""
