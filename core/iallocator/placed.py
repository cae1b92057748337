"""An instance where an answer puts it; only comparisons of answers need it."""

from __future__ import annotations

from typing import NamedTuple

from ganeti_steward.core.model.cluster import Instance


class Placed(NamedTuple):
    """An instance where an answer puts it."""

    instance: Instance
    nodes: tuple[str, ...]
    """primary first"""
