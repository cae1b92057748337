"""The ring of the last requests."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ganeti_steward.allocators import kept_requests
from ganeti_steward.core.config.values import History
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.iallocator.history import Call


@pytest.fixture
def ring(tmp_path: Path) -> History:
    return History(keep=3, directory=str(tmp_path / "a" / "history"))


def _record(config: History, number: int) -> None:
    call = Call(started=number, pid=7, arguments=("--x=1",), status=0)
    history.record(config, call, b"request %d" % number, b"answer %d" % number)


def test_what_is_kept_can_be_read_again(ring: History) -> None:
    _record(ring, 1)
    _record(ring, 2)
    kept = kept_requests.entry(ring)
    assert kept.call == Call(started=2, pid=7, arguments=("--x=1",), status=0)
    assert (kept.request, kept.answer) == (b"request 2", b"answer 2")
    first, second = history.names(ring)
    assert kept_requests.entry(ring, first).request == b"request 1"
    assert second == kept.name


def test_the_oldest_ones_are_dropped(ring: History) -> None:
    # By their time, not by the order of writing or the number of digits.
    for number in (5, 100, 9, 20, 1000):
        _record(ring, number)
    assert [int(name.split("-")[0]) for name in history.names(ring)] == [20, 100, 1000]
    assert sorted(os.listdir(ring.directory)) == history.names(ring)


def test_the_oldest_ones_are_dropped_by_size(
    ring: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their number; the last one stays even if it alone is too large."""
    monkeypatch.setattr(history, "MOST_BYTES", 3000)
    for number in (1, 2):
        history.record(ring, Call(number, 7, (), 0), b"x" * 1000, b"y" * 100)
        assert len(history.names(ring)) == number
    history.record(ring, Call(3, 7, (), 0), b"x" * 1000, b"y" * 100)
    assert [int(name.split("-")[0]) for name in history.names(ring)] == [2, 3]
    history.record(ring, Call(4, 7, (), 0), b"x" * 9000, b"y")
    assert [int(name.split("-")[0]) for name in history.names(ring)] == [4]


@pytest.mark.parametrize("config", [History(keep=0, directory="/proc/x"), History(directory="")])
def test_nothing_is_kept(config: History) -> None:
    _record(config, 1)
    assert history.names(config) == []


def test_only_the_user_can_read_it(ring: History) -> None:
    old = os.umask(0)
    try:
        _record(ring, 1)
    finally:
        os.umask(old)
    directory = Path(ring.directory)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")}
    files = dict.fromkeys((history.REQUEST, history.ANSWER, history.CALL), 0o600)
    assert modes == {history.names(ring)[0]: 0o700, **files}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_directory_others_can_look_into_is_refused(ring: History) -> None:
    os.makedirs(ring.directory)
    os.chmod(ring.directory, 0o750)
    with pytest.raises(StewardError, match=r"history .*: must belong to .* \(mode 0700\)"):
        _record(ring, 1)
    assert os.listdir(ring.directory) == []


def test_other_things_in_the_directory_stay(ring: History) -> None:
    os.makedirs(ring.directory, 0o700)
    others = [".ssh", ".new-mine", "0-notes", "precious"]
    for name in others:
        os.mkdir(os.path.join(ring.directory, name))
    for number in range(5):
        _record(ring, number)
    assert set(others) < set(os.listdir(ring.directory))
    assert len(history.names(ring)) == 3


def test_what_was_left_unfinished_goes_after_an_hour(ring: History) -> None:
    os.makedirs(ring.directory, 0o700)
    unfinished = os.path.join(ring.directory, f".new-{1:020d}-7")
    os.mkdir(unfinished)
    _record(ring, 3600 * 10**9)
    assert os.path.exists(unfinished)
    _record(ring, 3601 * 10**9)
    assert sorted(os.listdir(ring.directory)) == history.names(ring)


def test_many_writers_at_once(ring: History) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: _record(ring, number), range(200)))
    names = sorted(os.listdir(ring.directory))
    assert names == history.names(ring)
    assert 0 < len(names) <= 3
    assert all(kept_requests.entry(ring, name).request.startswith(b"request ") for name in names)


@pytest.mark.parametrize("directory", ["/proc/nowhere/history", "/dev/null/history"])
def test_directory_that_cannot_be_made(directory: str) -> None:
    with pytest.raises(StewardError, match=f"^history {directory}: "):
        _record(History(directory=directory), 1)


def test_a_call_twice_leaves_no_rest(ring: History) -> None:
    _record(ring, 1)
    with pytest.raises(StewardError, match="Directory not empty"):
        _record(ring, 1)
    assert os.listdir(ring.directory) == history.names(ring)


def test_nothing_to_show(ring: History) -> None:
    with pytest.raises(StewardError, match="no request is kept there"):
        kept_requests.entry(ring)
    _record(ring, 1)
    with pytest.raises(StewardError, match=r"no request is kept as '\.\./x'"):
        kept_requests.entry(ring, "../x")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"arguments": 5}', b'{"arguments": []}'])
def test_damaged_entry(ring: History, content: bytes) -> None:
    _record(ring, 1)
    (name,) = history.names(ring)
    Path(ring.directory, name, history.CALL).write_bytes(content)
    with pytest.raises(StewardError, match=f"{name} cannot be read: "):
        kept_requests.entry(ring)
