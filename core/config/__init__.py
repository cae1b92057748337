"""The configuration file: its sections as typed values, and how it is read and checked."""
