"""The collectors that come with the program; ``docs/diagnose.md`` has a section for each."""
