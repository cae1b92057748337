"""One cluster of four nodes, brought up once; the tests leave what they made to the next ones."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from ..cluster import PROGRAMS, op
from ..conftest import lacking
from ..daemon.maintained_lab import MaintainedLab

#: Made by root, for root.
CACHE: Final = Path("/var/cache/steward-tests")
WITH_AGENT: Final = ("node1.lab", "node2.lab", "node3.lab")


def bring_up(lab: MaintainedLab) -> None:
    """Start the cluster that an earlier run has saved, if the lab and Ganeti are still the same."""
    parts = [file.read_bytes() for file in sorted(PROGRAMS.iterdir()) if file.is_file()]
    version = subprocess.run(
        ["dpkg-query", "-W", "ganeti*"], capture_output=True, check=True
    ).stdout
    archive = CACHE / f"lab-{sha256(b''.join([*parts, version])).hexdigest()[:16]}.tgz"
    if archive.exists():
        lab.start(archive)
        return
    for old in CACHE.glob("lab-*.tgz"):
        old.unlink()
    lab.make(archive)


@pytest.fixture(scope="session")
def small() -> Iterator[MaintainedLab]:
    """The first three nodes are in one group: an instance with drbd has a third node to go to."""
    if reason := lacking():
        pytest.skip(reason)
    lab = MaintainedLab("smoke", nodes=4)
    try:
        bring_up(lab)
        lab.install_steward()
        lab.configure()
        lab.do(
            op("GROUP_ASSIGN_NODES", group_name="default", nodes=["node3.lab"]),
            op("CLUSTER_SET_PARAMS", default_iallocator="steward"),
        )
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module", autouse=True)
def _as_found() -> None:
    """In place of the fixture of that name for the usual lab, which is not needed here."""
