"""The uid pool as Ganeti's own code reads and takes it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ganeti_uids
import pytest
from uid_pools import FIRST, ganeti, order, process_with, with_ganeti
from whitelists import needs_root

from ganeti_steward.diagnose.sources.uid_pool import (
    Pool,
    UidPoolError,
    take_uid,
)


@contextmanager
def taken_by_ganeti(locks: str, *uids: int) -> Iterator[Any]:
    """The id Ganeti's code takes and holds, or why it takes none."""
    command = ["/usr/bin/python3", ganeti_uids.__file__, locks, "take", *map(str, uids)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


@needs_root
@with_ganeti
def test_ganeti_sees_our_lock(locks: str) -> None:
    one = take_uid([(FIRST, FIRST)], locks, order())
    with taken_by_ganeti(locks, FIRST) as found:
        assert found == "Failed to find an unused user-id"
    with taken_by_ganeti(locks, FIRST, FIRST + 1) as found:
        assert found == FIRST + 1
    one.unlock()
    with taken_by_ganeti(locks, FIRST) as found:
        assert found == FIRST


@needs_root
@with_ganeti
def test_we_see_the_lock_of_ganeti(locks: str) -> None:
    with taken_by_ganeti(locks, FIRST) as found:
        assert found == FIRST
        with pytest.raises(UidPoolError, match="no user id is free"):
            take_uid([(FIRST, FIRST)], locks, order())
        other = take_uid([(FIRST, FIRST + 1)], locks, order())
        assert other.uid == FIRST + 1
        other.release()
    take_uid([(FIRST, FIRST)], locks, order()).release()


@needs_root
@with_ganeti
def test_a_process_of_ours_is_seen_by_ganeti(locks: str) -> None:
    """Also when nothing is locked any more."""
    with process_with(FIRST, FIRST, FIRST), taken_by_ganeti(locks, FIRST) as found:
        assert found == "Failed to find an unused user-id"


@needs_root
@with_ganeti
def test_giving_back_what_the_other_took(locks: str) -> None:
    with taken_by_ganeti(locks, FIRST):
        pass
    assert os.listdir(locks) == [str(FIRST)]
    take_uid([(FIRST, FIRST)], locks, order()).unlock()
    assert ganeti(locks, "release", str(FIRST)) == [None]
    assert os.listdir(locks) == []
    (text,) = ganeti(locks, "release", str(FIRST))
    assert "Failed to remove user-id lockfile" in text


@with_ganeti
def test_the_places_are_those_of_the_package() -> None:
    source = (
        "import sys; sys.path.insert(0, '/usr/share/ganeti/default'); "
        "from ganeti import pathutils, ssconf, constants; "
        "print(pathutils.UIDPOOL_LOCKDIR); "
        "print(ssconf.SimpleStore().KeyToFilename(constants.SS_UID_POOL))"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", source], capture_output=True, text=True, check=True
    )
    locks, definition = done.stdout.split()
    assert Pool() == Pool(definition, locks)
