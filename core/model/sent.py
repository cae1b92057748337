"""What Ganeti sends of an object in addition to the figures every allocation needs.

It is read when it is used, and leniently: what is missing or odd never makes a request fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Sent:
    """An object as it was sent.  It does not count when objects are compared."""

    __slots__ = ("data",)

    AS_JSON: ClassVar[str] = "data"
    """see `ganeti_steward.core.typed_json`"""
    data: Mapping[str, Any]

    def __init__(self, data: Mapping[str, Any] = _NOTHING) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sent)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Sent(...)"

    def having(self, **more: Any) -> Sent:
        """The object as if this had been sent of it as well."""
        return Sent({**self.data, **more})

    def text(self, key: str) -> str:
        """A text; empty for anything else."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool | None:
        """True or false; None for anything else."""
        value = self.data.get(key)
        return value if isinstance(value, bool) else None

    def number(self, key: str) -> float | None:
        """A number; None for anything else."""
        value = self.data.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def entries(self, key: str) -> list[Sent]:
        """The objects of a list; nothing stands for what is no object."""
        value = self.data.get(key)
        items = value if isinstance(value, list) else []
        return [Sent(item if isinstance(item, dict) else _NOTHING) for item in items]
