"""The protocol of the node agent and its client; the agent itself is in the room diagnose."""
