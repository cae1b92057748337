"""The key file: read once, read again when it is another one, gone when it is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ganeti_steward.core.ganeti import hmac_key
from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.signing import WrongSignature, sign, verify

FIRST, OTHER, FORGED, BACK = (word * 10 + b"\n" for word in (b"1st", b"new", b"bad", b"old"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "hmac.key"
    path.write_bytes(FIRST)
    return path


def reading_counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every reading of a key is noted in the list."""
    readings: list[str] = []
    before = hmac_key._read

    def read(path: str) -> bytes:
        readings.append(path)
        return before(path)

    monkeypatch.setattr(hmac_key, "_read", read)
    return readings


def replace(path: Path, content: bytes) -> None:
    """Put another file in a file's place, as Ganeti does."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


def test_the_whole_file_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = reading_counted(monkeypatch)
    file = KeyFile(str(path))
    assert [file.key() for _ in range(3)] == [FIRST] * 3
    assert readings == [str(path)]


def test_another_file(path: Path) -> None:
    file = KeyFile(str(path))
    assert file.key() == FIRST
    replace(path, OTHER)
    assert file.key() == OTHER


def test_a_changed_file_that_looks_the_same(path: Path) -> None:
    """Same inode, size and time: found out when a signature does not fit."""
    file = KeyFile(str(path))
    file.key()
    before = os.stat(path)
    path.write_bytes(OTHER)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.key() == FIRST
    raw = sign(OTHER, "{}", "salt")
    assert file.with_key(lambda key: verify(key, raw, "salt")) == "{}"
    assert file.key() == OTHER


def test_a_signature_that_fits_no_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = reading_counted(monkeypatch)
    raw = sign(FORGED, "{}", "salt")
    with pytest.raises(WrongSignature):
        KeyFile(str(path)).with_key(lambda key: verify(key, raw, "salt"))
    assert len(readings) == 2


def test_a_key_that_is_gone(path: Path) -> None:
    file = KeyFile(str(path))
    file.key()
    path.unlink()
    with pytest.raises(NoKey, match="there is no key"):
        file.key()
    path.write_bytes(BACK)
    assert file.key() == BACK


def test_a_key_on_a_dying_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = KeyFile(str(path))
    file.key()
    replace(path, OTHER)

    def fail(_: str) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(hmac_key, "_read", fail)
    assert file.key() == FIRST
    with pytest.raises(NoKey, match="cannot be read: Input/output error"):
        KeyFile(str(path)).key()


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\r\n", b"\0" * 41, b"k\n", b"x" * 15 + b"\n"])
def test_no_key(path: Path, content: bytes) -> None:
    """What everybody can guess is none."""
    path.write_bytes(content)
    with pytest.raises(NoKey, match="has less than 16 bytes"):
        KeyFile(str(path)).key()


def test_a_directory_and_a_strange_path(tmp_path: Path) -> None:
    with pytest.raises(NoKey, match="it is not a regular file"):
        KeyFile(str(tmp_path)).key()
    with pytest.raises(NoKey, match="cannot be read"):
        KeyFile("/nowhere\0").key()


def test_a_long_file(path: Path) -> None:
    path.write_bytes(b"x" * 5000)
    with pytest.raises(NoKey, match="it is longer than 4096 bytes"):
        KeyFile(str(path)).key()


def test_a_fifo_in_place_of_the_key(path: Path) -> None:
    """It is not waited for, and the old key does not count any more."""
    file = KeyFile(str(path))
    assert file.key() == FIRST
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NoKey, match="it is not a regular file"):
        file.key()
