"""What several collectors use: reading thresholds, program output and kernel files."""
