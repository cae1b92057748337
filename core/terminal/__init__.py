"""What only a terminal gets: colours, and a line that shows that a command still works."""
