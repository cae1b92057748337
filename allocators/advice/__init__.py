"""What would make a refused request succeed; only for people, never on Ganeti's path."""
