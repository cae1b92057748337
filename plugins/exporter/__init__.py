"""Figures of a cluster for Prometheus: scores, N+1, capacity, misplaced instances."""
