"""Planned maintenance in the lab."""
