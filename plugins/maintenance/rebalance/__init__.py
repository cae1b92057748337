"""Routine work: each node group is made more even, a few moves in each round."""
