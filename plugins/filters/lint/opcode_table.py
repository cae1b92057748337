"""Which parameters the opcodes of Ganeti 3 have, and of which type their values are.

What only 3.0 or only 3.1 has is in the table as well: no rule of either is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.filters.jobs import COMMON

#: The field with the opcode's name.
NAME: Final = "OP_ID"
#: Type of a value -> a harmless one; ``a`` is any type.
SAMPLES: Final[Mapping[str, Any]] = {"b": False, "n": 0, "s": "x", "l": [], "o": {}, "a": "x"}
TYPES: Final = {
    "b": "a boolean",
    "n": "a number",
    "s": "a string",
    "l": "a list",
    "o": "an object",
    "a": "of any type",
}


class Parameter(NamedTuple):
    """One parameter of an opcode."""

    kind: str
    """a key of `TYPES`"""
    optional: bool = False
    """whether it can be unset: filters see no field of its name then"""


@cache
def opcode_table() -> Mapping[str, Mapping[str, Parameter]]:
    """Opcode -> its parameters by name, without those that all opcodes have."""
    data = load_json(files(__package__).joinpath("opcodes.json").read_text())
    return {
        opcode: {name: Parameter(kind[0], kind.endswith("?")) for name, kind in row.items()}
        for opcode, row in data.items()
    }


def parameter(opcode: str, field: str) -> Parameter | None:
    """What a field of an expression is in an opcode; None where there is no such field."""
    if field == NAME:
        return Parameter("s")
    name, *inner = field.split(".")
    found = opcode_table()[opcode].get(name)
    if found is None or not inner:
        return found
    # What is in an object is not known.
    return Parameter("a", optional=True) if found.kind in ("o", "a") else None


@lru_cache(maxsize=1000)
def opcodes_with(field: str) -> tuple[str, ...]:
    """The opcodes that have a field."""
    return tuple(opcode for opcode in opcode_table() if parameter(opcode, field))


def is_common(field: str) -> bool:
    """Whether all opcodes have it, and luxid does not let filters see it."""
    return field.split(".", maxsplit=1)[0] in COMMON
