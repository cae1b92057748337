"""One run of the self-diagnosis: all sources are asked, their results merged and kept."""
