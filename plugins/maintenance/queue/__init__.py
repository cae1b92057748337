"""What is handed to luxid and what its job queue shows: calls, jobs that have not ended.

The words of one submission are in `ganeti_steward.plugins.maintenance.edges.submit`.
"""
