"""A recording on a disk that is full, slow or gone: each moment that is there is the true one."""

from __future__ import annotations

import json
import os
import threading
from errno import ENOSPC, ETIMEDOUT
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from worlds import NOW, incident, node, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon import recording
from ganeti_steward.plugins.maintenance.daemon.recording import Recording
from ganeti_steward.plugins.maintenance.daemon.replay import Moment, read_moments
from ganeti_steward.plugins.maintenance.engine.decision import Inputs

if TYPE_CHECKING:
    from front import Front

#: Moments that differ in everything that is written only where it changes.
ROUNDS: Final = tuple(
    Inputs(
        world(
            [node("n1", master=True), node("n2", drained=number % 2 == 1)],
            incidents=[incident("n2")],
            now=NOW + number,
            cluster_tags=frozenset({f"tag{number // 3}"}),
        )
    )
    for number in range(12)
)
SETTINGS: Final = tuple(Maintd(most_nodes=1 + number // 2) for number in range(12))


class FullDisk:
    """The calls of ``os.write`` and ``os.ftruncate`` of a recording, on a disk with little room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        """bytes that are left; None: it is not full"""
        self._write = os.write
        monkeypatch.setattr(recording.os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room is None:
            return self._write(descriptor, data)
        if not self.room:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        part, self.room = data[: self.room], self.room - len(data[: self.room])
        return self._write(descriptor, part)


def record(one: Recording, *rounds: int) -> None:
    for number in rounds:
        one(ROUNDS[number], SETTINGS[number])


def lose(one: Recording, *rounds: int) -> None:
    for number in rounds:
        with pytest.raises(OSError, match="space"):
            record(one, number)


def moments(path: Path) -> list[Moment]:
    return list(read_moments(path.read_text().splitlines()))


def check(found: list[Moment], *rounds: int) -> None:
    """These rounds are recorded as they were."""
    assert [one.inputs.world.now - NOW for one in found] == [*rounds]
    for one, number in zip(found, rounds, strict=True):
        assert one.settings == SETTINGS[number]
        assert one.inputs.world.cluster_tags == ROUNDS[number].world.cluster_tags
        assert one.inputs.world.cluster.nodes == ROUNDS[number].world.cluster.nodes
        assert one.inputs.world.incidents == ROUNDS[number].world.incidents


@pytest.mark.parametrize("room", [0, 1, 200])
def test_the_disk_is_full_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """What changed while it was full is in the next line, and no part of a line is left."""
    path, disk = tmp_path / "rounds", FullDisk(monkeypatch)
    one = Recording(str(path))
    record(one, 0, 1)
    for lost in ((2, 3, 4, 5), (8,)):
        disk.room = room
        for number in lost:
            lose(one, number)
            disk.room = 0
        disk.room = None
        record(one, lost[-1] + 1, lost[-1] + 2)
    found = moments(path)
    check(found, 0, 1, 6, 7, 9, 10)
    assert [one.missing for one in found] == [0, 0, 4, 0, 1, 0]


def test_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """A line that is written late is there once, and those that were not written are missing."""
    path, over = tmp_path / "rounds", threading.Event()
    waits = [False]

    class Slow(DiskTimeout):
        def __call__(self, function: Any, /) -> Any:
            slow = waits[0]

            def work() -> object:
                assert not slow or over.wait(300)
                return function()

            return super().__call__(work)

    disk = Slow(0.2)
    one = Recording(str(path), disk)
    record(one, 0)
    waits[0] = True
    for number in (1, 2, 3):
        with pytest.raises(TimeoutError, match=os.strerror(ETIMEDOUT) + "|no answer"):
            record(one, number)
    waits[0] = False
    over.set()
    assert disk._last is not None
    disk._last.result(300)
    record(one, 4, 5)
    found = moments(path)
    check(found, 0, 4, 5)
    assert [one.missing for one in found] == [0, 3, 0]


@pytest.mark.parametrize("change", ["removed", "moved", "emptied", "cut", "torn", "edited"])
def test_another_program_changes_the_file(tmp_path: Path, change: str) -> None:
    """The next line depends on nothing that may be gone."""
    path, other = tmp_path / "rounds", tmp_path / "other"
    one = Recording(str(path))
    record(one, 0, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "removed":
        path.unlink()
    elif change == "moved":
        path.rename(other)
    else:
        rest = {
            "emptied": b"",
            "cut": lines[0],
            "torn": lines[0] + lines[1].strip(),
            "edited": b"".join((*lines, lines[1])),
        }
        path.write_bytes(rest[change])
    record(one, 2, 3)
    left = {"cut": (0,), "torn": (0, 1), "edited": (0, 1, 1)}.get(change, ())
    check(moments(path), *left, 2, 3)


def test_another_daemon_goes_on_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    record(Recording(str(path)), 0, 1)
    record(Recording(str(path)), 2, 3)
    check(moments(path), 0, 1, 2, 3)


def test_a_part_of_a_line_is_named(tmp_path: Path) -> None:
    """As a power cut leaves it: the lines after it can be read when it is removed."""
    path = tmp_path / "rounds"
    record(Recording(str(path)), 0)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    record(Recording(str(path)), 1, 2)
    with pytest.raises(StewardError, match="line 2: "):
        moments(path)
    lines = path.read_text().splitlines()
    check(list(read_moments([lines[0], *lines[2:]])), 0, 1, 2)


@pytest.mark.parametrize("number", [-1, True, "1", None])
def test_a_number_of_missing_moments_that_is_none(tmp_path: Path, number: object) -> None:
    path = tmp_path / "rounds"
    record(Recording(str(path)), 0)
    line = json.loads(path.read_text()) | {"missing": number}
    with pytest.raises(StewardError, match="line 1: missing: a number of moments is expected"):
        list(read_moments([json.dumps(line)]))


def test_replay_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, front: Front
) -> None:
    path, disk = tmp_path / "rounds", FullDisk(monkeypatch)
    one = Recording(str(path))
    record(one, 0)
    disk.room = 0
    lose(one, 1, 2, 3)
    disk.room = None
    record(one, 4)
    lines = front("maintd", "--replay", str(path)).out.splitlines()
    at = lines.index("3 moments before this one could not be recorded")
    assert lines[at + 1].startswith("moment 2: ")
