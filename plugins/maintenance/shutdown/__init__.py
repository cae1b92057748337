"""Shutdown of nodes with all that runs on them, and bring-up: tags say what was running."""
