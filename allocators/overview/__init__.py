"""How full each node and group is, now and after what is planned, and pictures of it as SVG."""
