"""Placement engines: legality, score, search; one module per request type."""
