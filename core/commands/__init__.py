"""The command ``gnt-steward`` and the commands that belong to no other room.

A command is a module with ``add_arguments(parser)`` and ``run(options) -> exit status``; a plugin
offers it with the hook ``steward_commands``.
"""
