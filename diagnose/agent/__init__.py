"""The node's own server: the signed report, and repair commands on signed requests."""
