"""Files in directories that other users may write: links, FIFOs, devices, other owners."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_steward.allocators import kept_requests
from ganeti_steward.core import log
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config, History
from ganeti_steward.core.errors import BadConfig, PluginError, StewardError
from ganeti_steward.core.hooks.loading import load_plugin
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.iallocator.history import Call
from ganeti_steward.core.safe_files import (
    UnsafeFile,
    make_directory,
    open_own,
    read_own,
    read_regular,
)
from ganeti_steward.diagnose.run.files import STATE, locked, prepare_directory
from ganeti_steward.diagnose.run.state_file import STUCK, read_state, read_stuck, write_stuck
from ganeti_steward.plugins.lock_file import lock_file
from ganeti_steward.plugins.maintenance.edges.audit import Audit

KINDS = ["link", "dangling link", "fifo", "hard link", "another's", "directory"]


def put(path: Path, kind: str) -> Path:
    """Put something of a kind at a path; returns the file it could lead to."""
    victim = path.parent / "victim"
    if kind != "dangling link":
        victim.write_text("precious\n")
    if kind.endswith("hard link"):
        os.link(victim, path)
    elif kind.endswith("link"):
        path.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_text("theirs\n")
        os.chown(path, 12345, 12345)
    return victim


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    if kind == "another's" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    return kind


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The logger of the program, as it was afterwards."""
    logger = logging.getLogger("ganeti_steward")
    handlers, propagate = list(logger.handlers), logger.propagate
    yield logger
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate = handlers, propagate


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND])
def test_own_files_only(tmp_path: Path, kind: str, flags: int) -> None:
    victim = put(tmp_path / "file", kind)
    with pytest.raises((UnsafeFile, IsADirectoryError)):
        open_own(str(tmp_path / "file"), flags)
    assert not victim.exists() or victim.read_text() == "precious\n"
    assert victim.exists() == (kind != "dangling link")


def test_a_log_that_leads_elsewhere_is_not_used(
    tmp_path: Path, kind: str, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steward.log"
    victim = put(path, kind)
    log.set_up(str(path), "info")
    logger.warning("a line")
    assert not victim.exists() or victim.read_text() == "precious\n"
    sentence = capsys.readouterr().err
    assert (kind == "directory") == (sentence == "")
    if sentence:
        assert sentence.startswith(f"Nothing is logged: {path}: ")
        assert sentence.count("\n") == 1


def test_a_log_of_our_own(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "steward.log"
    for line in ("one", "two"):
        log.set_up(str(path), "info")
        logger.warning(line)
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["one", "two"]


def test_lock_files(tmp_path: Path, kind: str) -> None:
    """A lock writes into its file, so that must not be another one."""
    victim = put(tmp_path / "lock", kind)
    with pytest.raises(StewardError, match="lock"), lock_file(str(tmp_path / "lock")):
        pass
    with pytest.raises(StewardError, match="lock"), locked(str(tmp_path)):
        pass
    assert not victim.exists() or victim.read_text() == "precious\n"


def test_state(tmp_path: Path, kind: str) -> None:
    """No hang and no traceback: it is set aside and reported."""
    put(tmp_path / STATE, kind)
    kept = read_state(str(tmp_path))
    assert kept.state.lost
    assert f"{tmp_path}/{STATE}" in kept.note
    assert not os.path.lexists(tmp_path / STATE)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"form":1,"held":{"a":1e999}}', '{"form":1e999}', "[NaN]", "\xff"]
)
def test_state_that_is_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).write_text(text, encoding="latin-1")
    kept = read_state(str(tmp_path))
    assert kept.state.lost
    assert "is not understood: it is not JSON" in kept.note


def test_stuck_processes(tmp_path: Path, kind: str) -> None:
    put(tmp_path / STUCK, kind)
    assert read_stuck(str(tmp_path)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[]",
        '{"a":1}',
        *(f'{{"a":[[{one}]]}}' for one in ("1,2,3", "1,1e999", "1e300,1", '"1",1', "-5,1")),
        *(f'{{"a":[[{one}]]}}' for one in ("9" * 20 + ",1", "true,1")),
    ],
)
def test_stuck_processes_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / STUCK).write_text(text)
    assert read_stuck(str(tmp_path)) == {}
    write_stuck(str(tmp_path), {})
    assert read_stuck(str(tmp_path)) == {}


def test_a_linked_history(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "history").symlink_to(elsewhere)
    config = History(keep=2, directory=str(tmp_path / "history"))
    with pytest.raises(StewardError, match="a link is not followed"):
        history.record(config, Call(1, 7, (), 0), b"request", b"answer")
    assert list(elsewhere.iterdir()) == []


def test_a_fifo_in_the_history(tmp_path: Path) -> None:
    config = History(keep=2, directory=str(tmp_path / "history"))
    history.record(config, Call(1, 7, (), 0), b"request", b"answer")
    answer = tmp_path / "history" / history.names(config)[0] / history.ANSWER
    answer.unlink()
    os.mkfifo(answer)
    with pytest.raises(StewardError, match="it is not a regular file"):
        kept_requests.entry(config)


def test_limits_of_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_own(str(tmp_path / "file"), 10) == b"x" * 10
    for read in (read_own, read_regular):
        with pytest.raises(UnsafeFile, match="longer than 9 bytes"):
            read(str(tmp_path / "file"), 9)
    with pytest.raises(UnsafeFile, match="not a regular file"):
        read_regular("/dev/zero", 9)
    if sys.platform == "linux" and os.geteuid() == 0:
        with pytest.raises(UnsafeFile, match="longer than 9 bytes"):
            read_own("/dev/zero", 9)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users are trusted by themselves")


def spoil(path: Path, how: str) -> None:
    """Let others than root be able to write a file."""
    if how == "owner":
        os.chown(path, 12345, 0)
    elif how == "group":
        os.chown(path, 0, 12345)
        path.chmod(0o664)
    else:
        path.chmod(0o606)


@as_root
@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ("owner", "it belongs to the user 12345, not to root"),
        ("group", r"others than root can write to it \(mode 0664\)"),
        ("others", r"others than root can write to it \(mode 0606\)"),
    ],
)
def test_what_root_uses_and_others_can_write(
    tmp_path: Path, how: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration and modules of plugins, as sudo looks at its own files."""
    config = tmp_path / "steward.toml"
    config.write_text("[history]\nkeep = 5\n")
    assert load_config(str(config)).history.keep == 5
    spoil(config, how)
    with pytest.raises(BadConfig, match=fault):
        load_config(str(config))

    package = tmp_path / f"safe_{how}"
    package.mkdir()
    for name in ("__init__", "good", "bad"):
        (package / f"{name}.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert vars(load_plugin(f"safe_{how}.good"))["loaded"]
    spoil(package / "bad.py", how)
    with pytest.raises(PluginError, match=f"is not loaded: {package}/bad.py: {fault}"):
        load_plugin(f"safe_{how}.bad")
    spoil(package / "__init__.py", how)
    with pytest.raises(PluginError, match=f"is not loaded: {package}/__init__.py: {fault}"):
        load_plugin(f"safe_{how}.good")


def test_a_configuration_that_is_a_fifo_or_never_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadConfig, match="it is not a regular file"):
        load_config(str(tmp_path / "fifo"))
    with pytest.raises(BadConfig, match="it is longer than 16777216 bytes"):
        load_config("/dev/zero")
    assert load_config("/dev/null") == Config()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_directories_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    """With 0 others could put files into those above, with 077 not reach what is theirs."""
    tmp_path.chmod(0o750)
    before = os.umask(umask)
    try:
        make_directory(f"{tmp_path}/a/b/state/")
        make_directory(f"{tmp_path}/a/b/public", 0o755)
        make_directory(f"{tmp_path}/a/b/state", 0o755)
    finally:
        os.umask(before)
    modes = {name: (tmp_path / name).stat().st_mode & 0o7777 for name in ("", "a", "a/b")}
    assert modes == {"": 0o750, "a": 0o755, "a/b": 0o755}
    assert (tmp_path / "a/b/state").stat().st_mode & 0o7777 == 0o700
    assert (tmp_path / "a/b/public").stat().st_mode & 0o7777 == 0o755


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for path in ("a", "a/b"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            make_directory(str(tmp_path / path))


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_directories_of_every_program(tmp_path: Path, umask: int) -> None:
    """The history, the audit log and the diagnosis."""
    before = os.umask(umask)
    try:
        config = History(directory=str(tmp_path / "h/steward/history"))
        history.record(config, Call(1, 1, (), 0), b"{}", b"{}")
        Audit(str(tmp_path / "a/steward/maintd/audit.db")).start(0)
        prepare_directory(str(tmp_path / "d/steward/diagnose"))
    finally:
        os.umask(before)
    for name, mode in {
        **dict.fromkeys(("h", "h/steward", "a", "a/steward", "d", "d/steward"), 0o755),
        **dict.fromkeys(("h/steward/history", "a/steward/maintd", "d/steward/diagnose"), 0o700),
    }.items():
        assert (tmp_path / name).stat().st_mode & 0o7777 == mode, name
