"""How full each node and group is, now and after what is planned; drawn by `core.drawing`."""
