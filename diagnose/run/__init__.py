"""One run of the self-diagnosis: all sources are run, their results merged and stored."""
