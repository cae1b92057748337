"""Planned maintenance: which nodes can be away together, and where their instances are then."""
