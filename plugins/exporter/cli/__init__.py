"""The command ``exporter``."""
