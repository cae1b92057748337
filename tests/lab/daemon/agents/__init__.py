"""The node agents in the lab."""
