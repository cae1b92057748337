"""The values everything is computed from: the cluster, requests, answers, explanations, findings.

Frozen, no I/O.  How they come from JSON or from a live cluster is in `iallocator` and `ganeti`.
"""
