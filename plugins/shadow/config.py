"""The configuration of the shadows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from ganeti_steward.core.config.kinds import NAMES, Each, number
from ganeti_steward.core.model.requests import HOOKS


class Shadow(NamedTuple):
    """[shadow]: allocators that are called as well, only to be compared and logged."""

    chains: Annotated[
        Mapping[str, tuple[str, ...]],
        Each(HOOKS, NAMES, ()),
        "Allocators to call as well; their results are only compared and logged.",
    ] = MappingProxyType({})
    """request type -> its shadows"""
    time_limit: Annotated[float, number(0.1, 3600), "Seconds each of them may take."] = 120
