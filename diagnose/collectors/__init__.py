"""The collectors that come with the program.

``docs/reference/collectors-storage.md`` and ``docs/reference/collectors-host.md`` have a section for each.
"""
