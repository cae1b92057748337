"""`NamedTuple` of the allocator's path: the same classes as typing's, made faster."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import typing
from typing import get_type_hints

import pytest
from messages import KINDS, message

from ganeti_steward.core.records import NamedTuple

#: Prints the classes of the project that typing's NamedTuple makes while a message is answered.
SCRIPT = """
import sys, typing
made, make = [], typing.NamedTupleMeta.__new__
def noted(cls, name, bases, members):
    made.append(f"{members['__module__']}.{name}")
    return make(cls, name, bases, members)
typing.NamedTupleMeta.__new__ = noted
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.model.options import Options
print(answer_message(sys.stdin.buffer.read(), Options(), Config()).info[:0], end="")
print(*[name for name in made if name.startswith("ganeti_steward.")])
"""


class Place(NamedTuple):
    """Where something is."""

    node: str
    disk: int = 5
    """MiB"""

    @property
    def text(self) -> str:
        return f"{self.node}/{self.disk}"


class Known(typing.NamedTuple):
    """Where something is."""

    node: str
    disk: int = 5

    @property
    def text(self) -> str:
        return f"{self.node}/{self.disk}"


def test_the_same_class_as_typings() -> None:
    mine, known = Place("n1"), Known("n1")
    assert (tuple(mine), mine.text, mine) == (tuple(known), known.text, known)
    assert repr(mine) == "Place(node='n1', disk=5)"
    assert Place._fields == Known._fields
    assert Place._field_defaults == Known._field_defaults == {"disk": 5}
    assert Place.__doc__ == Known.__doc__
    assert Place.__module__ == Known.__module__
    assert get_type_hints(Place) == get_type_hints(Known) == {"node": str, "disk": int}
    assert mine._replace(disk=1) == ("n1", 1)
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert Place.__mro__[1:] == (tuple, object)


@pytest.mark.parametrize("kind", KINDS)
def test_no_other_class_is_made_for_a_request(kind: str) -> None:
    raw = json.dumps(message(kind)).encode()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=raw, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == []
