"""One lab for all tests of this directory; it costs half a minute."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from .cluster import DRBD, NOT_VM_CAPABLE, PLAIN, Lab


def _lacking() -> str:
    """Why there can be no lab here."""
    if sys.platform != "linux":
        return "a lab needs Linux"
    if os.geteuid() != 0:
        return "a lab needs root"
    return ""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    lacking = _lacking()
    if lacking and os.environ.get("CI") == "true":
        pytest.fail(f"{lacking}; these tests are never skipped in CI")
    if lacking:
        pytest.skip(lacking)
    lab = Lab(f"ganetistewardlab-{os.getpid()}")
    try:
        lab.up()
        lab.install_steward()
        lab.configure()
        lab.restart_noded()
        lab.ok("gnt-cluster modify -I steward")
        lab.ok(f"gnt-node modify --vm-capable=no {NOT_VM_CAPABLE}")
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module", autouse=True)
def _as_found(lab: Lab) -> Iterator[None]:
    """Each file of tests finds the pretended instances only, and no configuration."""
    lab.configure()
    yield
    for name in lab.query("gnt-instance list -o name"):
        if name not in DRBD | PLAIN:
            lab.remove(name)
