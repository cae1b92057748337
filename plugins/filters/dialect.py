"""The two readings of a filter rule: what luxid does, and what the design promises."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Dialect(NamedTuple):
    """How rules are evaluated (job-filters 2 and 7)."""

    name: str
    reason_operators: bool
    """whether ``=~``, ``?`` and ``=[]`` work in the predicate ``reason``; else they never match"""
    any_value: bool
    """whether a job id can be compared with any text; else that never matches"""
    common_parameters: bool
    """whether the predicate ``opcode`` also sees ``comment``, ``priority`` and the like"""
    bucket: re.Pattern[str]
    """of a reason text: the group ``limit`` is the most jobs at a time, ``name`` the bucket"""


#: What Ganeti 3.0 and 3.1 do.
LUXID: Final = Dialect(
    "luxid",
    reason_operators=False,
    any_value=False,
    common_parameters=False,
    bucket=re.compile(r"rate-limit:(?P<name>\s*0*(?P<limit>[1-9][0-9]*)\s*(?::.*)?)", re.DOTALL),
)
#: What the design document says.
DESIGN: Final = Dialect(
    "design",
    reason_operators=True,
    any_value=True,
    common_parameters=True,
    bucket=re.compile(r"rate-limit:(?P<name>(?P<limit>[1-9][0-9]*):.*)", re.DOTALL),
)

DIALECTS: Final = {one.name: one for one in (LUXID, DESIGN)}
