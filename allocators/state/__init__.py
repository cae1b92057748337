"""The figures the engines compute with, and how they come from the cluster model."""
