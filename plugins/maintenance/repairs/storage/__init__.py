"""The repair of failing physical volumes: its steps, what they require, and the reading of LVM."""
