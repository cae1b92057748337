"""SMART data by kind of disk; the collector `smart` puts it together."""
