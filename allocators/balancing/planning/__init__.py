"""Plans for one node group: where to search, and the jobs that lead to what was found."""
