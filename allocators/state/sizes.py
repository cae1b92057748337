"""Sizes as Ganeti's commands take and print them; without a unit in MiB."""

from __future__ import annotations

import math
import re
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import LIMIT, quoted

_SIZE: Final = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)\s*(?P<unit>[a-z]*)", re.ASCII)


#: MiB of each unit.
_UNITS: Final = {"": 1, "m": 1, "g": 1024, "t": 1024**2}


#: The letters of Ganeti's ``--units``: with a suffix and scaled, MiB, GiB, TiB.
UNITS: Final = ("h", "m", "g", "t")


def format_size(mebibytes: float, units: str) -> str:
    """MiB as Ganeti's lists print them, in one of `UNITS`."""
    scaled = units == "h"
    if scaled:
        units = "m" if mebibytes < 1024 else "g" if mebibytes < 1024**2 else "t"
    text = f"{mebibytes:.0f}" if units == "m" else f"{mebibytes / _UNITS[units]:.1f}"
    return text + (units.upper() if scaled else "")


def parse_size(text: str) -> int:
    """``4g`` or ``1.5GiB`` in MiB, as Ganeti rounded up to a multiple of 4; raises StewardError."""
    match = _SIZE.fullmatch(text.strip().lower())
    unit = match["unit"] if match else "?"
    factor = _UNITS.get(unit.removesuffix("b").removesuffix("i"))
    if match is None or factor is None or unit in ("b", "i", "ib"):
        raise StewardError(f"a size such as 512, 4g or 1.5t is expected, found {quoted(text)}")
    size = math.ceil(float(match["number"]) * factor / 4) * 4
    if size > LIMIT:
        raise StewardError(f"the size {quoted(text)} is out of range")
    return size
