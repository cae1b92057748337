"""An unkind world: nodes and daemons of Ganeti that break while the daemon works."""
