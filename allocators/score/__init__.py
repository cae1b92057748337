"""The score and the capacity test (allocation 5, 8), and searches ordered by them."""
