"""The cases: which clusters and requests, and where hail cannot follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NEVER: Final = 10**9
DRBD_ONLY: Final = ("--mix", "drbd=1")
SHARED_ONLY: Final = ("--mix", "sharedfile=1")
MIXED: Final = ("--mix", "drbd=7,plain=2,ext=1")
BATCH: Final = ("--count", "100", "--new-mem", "1024", "--new-disk", "10240", "--new-cpu", "1")
#: Sizes of --quick, for every case.
QUICK_SIZES: Final = (10, 20)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program of htools, compared with a command of Steward on a file in htools' format."""

    program: str
    options: Sequence[str]
    """its own; the file's name follows"""
    command: Sequence[str]
    """gnt-steward's command with options; the file's name follows"""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request on clusters of growing size, 10 instances per node.

    What this page states about hail applies to the tool where there is one.
    """

    name: str
    options: Sequence[str]
    """for make_cluster.py"""
    sizes: Sequence[int]
    hail_up_to: int
    """nodes; above it hail would take all memory of an ordinary machine, or hours"""
    hail_quick_up_to: int
    """nodes; above it hail takes minutes and is run with --slow only"""
    tool: Tool | None = None
    """what is compared where it is not hail and an allocator's answer"""

    def why_no_hail(self, nodes: int, slow: bool) -> str:
        """The reason to leave hail out at this size; empty where it is run."""
        if nodes > self.hail_up_to:
            return f"never run above {self.hail_up_to} nodes: it takes all memory, or hours"
        if nodes > self.hail_quick_up_to and not slow:
            return "takes minutes: only with --slow"
        return ""


def _capacity(
    name: str, template: str, options: Sequence[str], *, sizes: Sequence[int], quick: int
) -> Case:
    """Both counts of hspace with one disk template."""
    wanted = ("--disk-template", template)
    return Case(
        name,
        (*options, "--request", "none"),
        sizes,
        hail_up_to=300,
        hail_quick_up_to=quick,
        tool=Tool(
            "hspace",
            (*wanted, "--machine-readable", "-t"),
            ("capacity", *wanted, "--json", "--text-data"),
        ),
    )


CASES: Final[Sequence[Case]] = (
    Case(
        "alloc-drbd",
        (*DRBD_ONLY, "--request", "allocate"),
        sizes=(10, 40, 100, 300, 1000, 3000),
        hail_up_to=1000,
        hail_quick_up_to=1000,
    ),
    Case(
        "alloc-plain",
        (*DRBD_ONLY, "--request", "allocate", "--new-template", "plain"),
        sizes=(10, 40, 100, 300, 1000, 3000),
        hail_up_to=NEVER,
        hail_quick_up_to=1000,
    ),
    Case(
        "relocate",
        (*DRBD_ONLY, "--request", "relocate"),
        sizes=(10, 40, 100, 300, 1000, 3000),
        hail_up_to=NEVER,
        hail_quick_up_to=1000,
    ),
    Case(
        "mixed-alloc-drbd",
        (*MIXED, "--request", "allocate"),
        sizes=(10, 40, 100),
        hail_up_to=100,
        hail_quick_up_to=60,
    ),
    Case(
        "aggregates-alloc-drbd",
        (*DRBD_ONLY, "--request", "allocate", "--aggregates", "200"),
        sizes=(100, 1000),
        hail_up_to=1000,
        hail_quick_up_to=100,
    ),
    Case(
        "multi-100",
        (*DRBD_ONLY, "--request", "multi-allocate", *BATCH),
        sizes=(100,),
        hail_up_to=100,
        hail_quick_up_to=100,
    ),
    Case(
        "evac-all",
        (*DRBD_ONLY, "--request", "node-evacuate", "--evac-mode", "all"),
        sizes=(10, 40, 100, 300, 1000),
        hail_up_to=300,
        hail_quick_up_to=100,
    ),
    Case(
        "evac-secondary",
        (*DRBD_ONLY, "--request", "node-evacuate", "--evac-mode", "secondary-only"),
        sizes=(10, 40, 100, 300, 1000),
        hail_up_to=1000,
        hail_quick_up_to=1000,
    ),
    Case(
        "change-group-1",
        (*DRBD_ONLY, "--request", "change-group", "--groups", "2", "--count", "1"),
        sizes=(10, 40, 100, 300, 1000),
        hail_up_to=300,
        hail_quick_up_to=300,
    ),
    Case(
        "balance-drbd",
        (*DRBD_ONLY, "--request", "none", "--choices", "1"),
        sizes=(10, 40, 100, 300),
        hail_up_to=40,
        hail_quick_up_to=10,
        tool=Tool("hbal", ("-t",), ("balance", "--json", "--text-data")),
    ),
    _capacity("capacity-drbd", "drbd", DRBD_ONLY, sizes=(10, 40, 100, 300), quick=100),
    _capacity("capacity-plain", "plain", DRBD_ONLY, sizes=(10,), quick=10),
    _capacity("capacity-shared", "sharedfile", DRBD_ONLY, sizes=(10, 40), quick=10),
    _capacity("capacity-all-shared", "sharedfile", SHARED_ONLY, sizes=(10, 40), quick=10),
)
