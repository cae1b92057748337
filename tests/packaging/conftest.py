"""Builds of whole packages take a minute each: they run with --thorough only."""

from __future__ import annotations

from thorough import often

collect_ignore = [] if often(0, 1) else ["test_built_packages.py"]
