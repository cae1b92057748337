"""Notifications of changes of incidents: hooks, the configured program, the web address."""
