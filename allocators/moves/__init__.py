"""The request types ``node-evacuate`` and ``change-group``: instances leave their nodes."""
