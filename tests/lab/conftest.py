"""A lab for each worker that runs tests of this directory."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .cluster import DEFAULT_GROUP, MASTER, NOT_VM_CAPABLE, Lab, op
from .live import Ways, ways


def pytest_itemcollected(item: pytest.Item) -> None:
    """``-m "not lab"`` leaves these tests out."""
    if Path(__file__).parent in item.path.parents:
        item.add_marker(pytest.mark.lab)


def lacking() -> str:
    """Why there can be no lab here."""
    if sys.platform != "linux":
        return "a lab needs Linux"
    if os.geteuid() != 0:
        return "a lab needs root"
    return ""


def _up(lab: Lab, root: Path) -> None:
    """Bring a lab up; all labs of a run start from what the first one was then."""
    archive = root / "lab.tgz"
    with (root / "lab.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            lab.make(archive)
            return
    lab.start(archive)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if reason := lacking():
        pytest.skip(reason)
    root = tmp_path_factory.getbasetemp()
    lab = Lab("lab")
    try:
        # The workers of xdist have folders of their own in one for all of them.
        _up(lab, root.parent if "PYTEST_XDIST_WORKER" in os.environ else root)
        lab.install_steward()
        lab.configure()
        lab.restart_noded()
        lab.do(
            op("CLUSTER_SET_PARAMS", default_iallocator="steward"),
            op("NODE_SET_PARAMS", node_name=NOT_VM_CAPABLE, vm_capable=False),
        )
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module", autouse=True)
def _as_found(lab: Lab) -> Iterator[None]:
    """Each file of tests finds the pretended instances only, and no configuration."""
    lab.configure()
    yield
    lab.clean()


@pytest.fixture(scope="module")
def to(lab: Lab) -> Ways:
    """The options of commands that read this cluster."""
    return ways(lab)


@pytest.fixture(scope="module")
def _three_candidates(lab: Lab) -> Iterator[None]:
    """Two other nodes are master candidates as well, which the pool has room for."""

    def become(candidate: bool) -> list[dict[str, Any]]:
        others = [name for name in DEFAULT_GROUP if name != MASTER]
        return [op("NODE_SET_PARAMS", node_name=n, master_candidate=candidate) for n in others]

    # The pool is never larger than what there is: Ganeti would choose other nodes.
    lab.do(*become(True), op("CLUSTER_SET_PARAMS", candidate_pool_size=3))
    yield
    lab.do(op("CLUSTER_SET_PARAMS", candidate_pool_size=1), *become(False))
