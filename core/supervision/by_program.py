"""A supervisor that is a program of its own, for a process with several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.supervision.own_program import start_module
from ganeti_steward.core.supervision.run import Call, Run
from ganeti_steward.core.supervision.supervising import Work, supervise
from ganeti_steward.core.typed_json import from_json, to_json


class _Head(NamedTuple):
    """What a line of JSON says; the program's input follows it."""

    writing: int
    parent: int
    """process id"""
    descriptors: tuple[int, ...]
    call: Call


def supervisor_program(work: Work, writing: int, descriptors: Sequence[int]) -> int:
    """Start a supervisor; ``work`` has to be a `Run`.  Raises OSError."""
    assert isinstance(work, Run)
    head = canonical(to_json(_Head, _Head(writing, os.getpid(), tuple(descriptors), work.call)))
    return start_module(
        __name__, head + b"\n" + work.given, (writing, *descriptors), output=subprocess.DEVNULL
    )


def main() -> None:
    """Do the work that standard input holds."""
    head, _, given = sys.stdin.buffer.read().partition(b"\n")
    writing, parent, descriptors, call = from_json(_Head, load_json(head))
    supervise(Run(call, given), writing, descriptors, parent)
