"""The built-in plugins that plan the next task of an incident.

``evacuate`` is the plugin and the order of steps of an evacuation, ``evacuated_instances`` decides
about each instance; ``repair_storage`` is the repair of failing physical volumes.
"""
