"""The lock that one process at a time can hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.lock_file import is_locked, lock_file

_HOLD = """
import sys
from ganeti_steward.plugins.lock_file import is_locked, lock_file
with lock_file(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StewardError, match=f"already running as process {other.pid}: "):
            lock_file(path).__enter__()
        other.kill()
    with lock_file(path):
        assert Path(path).read_text() == f"{os.getpid()}\n"


def test_the_lock_ends_with_the_block(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    for _ in range(2):
        with lock_file(path):
            assert Path(path).stat().st_mode & 0o777 == 0o600


def test_a_place_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=r"missing/lock cannot be opened: No such file"):
        lock_file(str(tmp_path / "missing" / "lock")).__enter__()


def test_whether_it_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert is_locked(str(path)) is False
    assert not path.exists()
    with lock_file(str(path)):
        assert is_locked(str(path)) is True
        assert is_locked(str(path)) is True
    assert is_locked(str(path)) is False
    (tmp_path / "link").symlink_to(path)
    assert is_locked(str(tmp_path / "link")) is None


_LOOK = """
import sys
from ganeti_steward.plugins.lock_file import is_locked
print("looking", flush=True)
while True:
    is_locked(sys.argv[1])
"""


def test_who_only_looks_is_in_nobodys_way(tmp_path: Path) -> None:
    """A status command at the moment of the start."""
    path = str(tmp_path / "lock")
    Path(path).touch(mode=0o600)
    with subprocess.Popen([sys.executable, "-c", _LOOK, path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"looking\n"
        try:
            for _ in range(3000):
                with lock_file(path):
                    pass
        finally:
            other.kill()
