"""Loads of nodes and instances: measured, or given in a file, and how a cluster gets them."""
