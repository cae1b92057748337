"""The values of the self-diagnosis: the diagnose object, merging, hysteresis, the report."""
