"""Evacuations: what is done next for a node, and for each instance on it.

``evacuate`` is the plugin and the order of steps; ``instances`` judges each instance, ``dead_node``
what a node that does not answer needs before anything is started elsewhere.
"""
