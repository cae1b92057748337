"""`NamedTuple` for the modules that Ganeti's call of the allocator imports.

It makes the same classes as `typing.NamedTuple`, which also compiles the text of every annotation:
before Python 3.14 about a quarter of what the imports of a small allocation take.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Record(type):
        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
            """The named tuple that the body of a class describes."""
            fields = members.pop("__annotations__", {})
            defaults = [members.pop(field) for field in fields if field in members]
            made = namedtuple(name, fields, defaults=defaults, module=members["__module__"])
            made.__annotations__ = fields
            for key, value in members.items():
                setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Record, "NamedTuple", (), {})
