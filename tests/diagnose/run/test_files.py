"""The files of the diagnosis: whole ones only, one run at a time, a state that is understood."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.finding import STATUSES, Finding, Unknown
from ganeti_steward.core.whole_files import remove_leftovers, write_file
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, SourceState, update
from ganeti_steward.diagnose.run.files import Busy, locked, prepare_directory
from ganeti_steward.diagnose.run.state_file import parse_state, read_state, state_bytes, write_state

LIVE = Finding("smart:sda", "live-repair", "change-disk", {"failed": [1, None, "ü"]})
STATE = RunState(
    {
        "smart:sda": SourceState((LIVE,), (LIVE._replace(status="evacuate"),), 2),
        "md": SourceState(None, (Finding("md", "evacuate"),), 1),
        "odd": SourceState((Finding("odd", "evacuate"),), (), 3),
    },
    ("ipmi",),
)


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    for content in (b"one", b"two"):
        write_file(str(file), content)
        assert file.read_bytes() == content
        assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_reader_keeps_the_whole_old_one(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write_file(str(file), b"one")
    with file.open("rb") as reader:
        write_file(str(file), b"two" * 1000)
        assert reader.read() == b"one"


def test_what_a_crash_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".state.json.{os.getpid()}.new").write_text("half")
    write_file(str(tmp_path / "state.json"), b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "directory":
        place.mkdir()
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(place)
    before = place.lstat()
    with pytest.raises(StewardError, match="not a regular file"):
        write_file(str(place), b"x")
    assert os.path.samestat(before, place.lstat())
    assert list(tmp_path.iterdir()) == [place]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "nosuch" / "file"
    with pytest.raises(StewardError, match=f"{path} cannot be written: No such file"):
        write_file(str(path), b"x")


def test_directory(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    for _ in range(2):
        prepare_directory(str(path))
    assert path.stat().st_mode & 0o777 == 0o700
    for mode in (0o770, 0o707, 0o1777):
        path.chmod(mode)
        with pytest.raises(StewardError, match="closed to the writing of others"):
            prepare_directory(str(path))
    (tmp_path / "file").touch()
    with pytest.raises(StewardError, match="File exists"):
        prepare_directory(str(tmp_path / "file"))


HOLDER = """
import sys
from ganeti_steward.diagnose.run.files import locked
with locked(sys.argv[1]):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_one_run_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mine\n"
        with pytest.raises(Busy, match="another run is under way"), locked(str(tmp_path)):
            pass
        holder.communicate()
    with locked(str(tmp_path)):
        pass


def test_a_child_that_goes_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Such as one that cannot be killed because its disk does not answer."""
    source = """
import os, sys, time
from ganeti_steward.diagnose.run.files import locked
with locked(sys.argv[1]):
    pid = os.fork()
    if not pid:
        time.sleep(3600)
    print(pid, flush=True)
os._exit(0)
"""
    command = [sys.executable, "-c", source, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as done:
        assert done.stdout is not None
        child = int(done.stdout.readline())
        try:
            assert done.wait(300) == 0
            os.kill(child, 0)
            with locked(str(tmp_path)):
                pass
        finally:
            os.kill(child, 9)


def test_errors_within_the_lock_are_their_own(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), locked(str(tmp_path)):
        raise PermissionError


def test_a_lock_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StewardError, match="lock"), locked(str(tmp_path)):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_state(str(tmp_path)) == (RunState(), b"", "")
    write_state(str(tmp_path), read_state(str(tmp_path)), STATE)
    kept = read_state(str(tmp_path))
    assert (kept.state, kept.note) == (STATE, "")
    assert kept.raw.isascii()
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600


def test_a_lost_state_stays_lost(tmp_path: Path) -> None:
    lost = STATE._replace(lost=True)
    write_state(str(tmp_path), read_state(str(tmp_path)), lost)
    assert read_state(str(tmp_path)).state == lost


def test_the_state_of_another_machine(tmp_path: Path) -> None:
    """Its disk, or its backup: what was found there is not wrong here."""
    raw = state_bytes(STATE).replace(os.uname().nodename.encode(), b"another")
    (tmp_path / "state.json").write_bytes(raw)
    kept = read_state(str(tmp_path))
    assert kept.state == RunState(lost=True)
    assert "it is of the machine 'another'" in kept.note


def test_the_same_state_is_not_written_again(tmp_path: Path) -> None:
    write_state(str(tmp_path), read_state(str(tmp_path)), STATE)
    before = (tmp_path / "state.json").stat().st_ino
    write_state(str(tmp_path), read_state(str(tmp_path)), STATE)
    assert (tmp_path / "state.json").stat().st_ino == before


FINDINGS = st.lists(
    st.builds(
        Finding,
        st.sampled_from(["a", "a:b", "ü"]),
        st.sampled_from(STATUSES),
        st.sampled_from(["", "fix"]),
        st.recursive(st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                     st.lists, max_leaves=4),
    ) | st.builds(Unknown, st.just("a"), st.just("why")),
    max_size=4,
)  # fmt: skip


@given(st.lists(FINDINGS, max_size=4))
def test_every_state_survives(history: list[list[Finding | Unknown]]) -> None:
    state = RunState()
    for results in history:
        state = update(state, results, RunCounts(3, 2)).state
        again = parse_state(state_bytes(state))
        assert again == state
        assert state_bytes(again) == state_bytes(state)


def test_deep_details_survive() -> None:
    details: object = 1
    for _ in range(62):
        details = [details]
    state = RunState({"a": SourceState((Finding("a", "evacuate", "", details),))}, ())
    assert parse_state(state_bytes(state)) == state


GOOD = json.loads(state_bytes(STATE))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 4096,
        b"{",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        state_bytes(STATE)[:-20],
        *(
            json.dumps(GOOD | change).encode()
            for change in (
                {"form": 2},
                {"host": "another"},
                {"host": None},
                {"state": []},
                {"state": {"held": []}},
                {"state": {"held": {"a": None}}},
                {"state": {"held": {"a": {"runs": -1}}}},
                {"state": {"held": {"a": {"runs": True}}}},
                {"state": {"held": {"a": {"confirmed": [{"source": "a", "status": "Ok"}]}}}},
                {"state": {"held": {"a": {"confirmed": [{"source": "a", "status": 5}]}}}},
                {"state": {"held": {"a": {"confirmed": [{"source": "a"}]}}}},
                {"state": {"held": {"a": {"pending": [{"source": "b", "status": "evacuate"}]}}}},
                {"state": {"held": {"a": {"pending": 5}}}},
                {"state": {"lost": 0}},
                {"state": {"unreported": [1]}},
                {"state": {"unreported": None}},
                {"state": {"unheard": []}},
            )
        ),
        json.dumps(GOOD).replace("null", "NaN").encode(),
    ],
)
def test_a_state_that_is_not_understood(tmp_path: Path, raw: bytes) -> None:
    """It is reported, and the file is kept so that it can be examined."""
    file = tmp_path / "state.json"
    file.write_bytes(raw)
    kept = read_state(str(tmp_path))
    assert (kept.state, kept.raw) == (RunState(lost=True), b"")
    assert kept.note.startswith(f"{file} is not understood: ")
    assert "lost" in kept.note
    assert (tmp_path / "state.json.unusable").read_bytes() == raw
    assert read_state(str(tmp_path)).note == ""


def test_a_state_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    assert "cannot be read: it is not a regular file" in read_state(str(tmp_path)).note


def test_leftovers_of_killed_runs(tmp_path: Path) -> None:
    """Those of the one file, where other processes may be writing; else all of them."""
    mine = tmp_path / f".report.json.{2**22 + 1}.new"
    being_written = tmp_path / ".report.json.1.new"
    others = [tmp_path / ".kept-edac.12.new", tmp_path / ".state.json.4194305.new"]
    kept = [tmp_path / name for name in (".new", ".report.json.x.new", "report.json.5.new")]
    for file in (mine, being_written, *others, *kept):
        file.write_text("half")
    write_file(str(tmp_path / "report.json"), b"whole")
    left = {being_written, *others, *kept, tmp_path / "report.json"}
    assert set(tmp_path.iterdir()) == left
    remove_leftovers(str(tmp_path))
    assert set(tmp_path.iterdir()) == {*kept, tmp_path / "report.json"}


def test_a_file_is_on_the_disk_before_it_takes_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the name leads to the whole old file or to the whole new one."""
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        status = os.fstat(descriptor)
        done.append("directory" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        fsync(descriptor)

    def renamed(old: str, new: str) -> None:
        done.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    write_file(str(tmp_path / "report.json"), b"whole")
    assert done == ["5 bytes", "rename", "directory"]
