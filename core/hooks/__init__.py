"""The hooks, the plugin manager, and the calls of plugins, each with its time limit."""
