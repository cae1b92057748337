"""Pickling for a process of our own, read-only mappings included."""

from __future__ import annotations

import copyreg
import io
import pickle
from types import MappingProxyType
from typing import Any


class _Pickler(pickle.Pickler):
    """Takes the read-only mappings of the configuration too; they become dictionaries."""

    dispatch_table = copyreg.dispatch_table.copy()


def _mapping(mapping: Any) -> tuple[Any, ...]:
    return dict, (dict(mapping),)


_Pickler.dispatch_table[MappingProxyType] = _mapping


def pickled(value: object) -> bytes:
    """A value as bytes; raises what pickle raises."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()
