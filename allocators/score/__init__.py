"""The cluster score (allocation 5), the capacity test (8), and searches ordered by them."""
