"""What the maintenance daemon and its plugins exchange: incidents, tasks, and the world they see.

Values only.  What decides and acts is `ganeti_steward.plugins.maintenance`.
"""
