"""The collectors that come with the program.

``docs/collectors-storage.md`` and ``docs/collectors-host.md`` have a section for each.
"""
