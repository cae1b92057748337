"""The cluster's HMAC key as it lies on a node, read again when it changes.

``gnt-cluster renew-crypto --new-confd-hmac-key`` puts a new file in the place of the old one
while programs are running.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.signing import WrongSignature
from ganeti_steward.core.safe_files import UnsafeFile, read_regular
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout

PATH: Final = "/var/lib/ganeti/hmac.key"

#: Bytes; Ganeti's key has 41.
_LONGEST: Final = 4096

#: Bytes without blanks around; a shorter key could be guessed.
_SHORTEST: Final = 16

#: What does not count: blanks, and what a power cut leaves of a file.
_NOTHING: Final = b"\0 \t\r\n"

_Result = TypeVar("_Result")


class NoKey(StewardError):
    """There is no key to sign or to verify with."""


class _Seen(NamedTuple):
    """What distinguishes a file from the one that took its place."""

    inode: int
    size: int
    changed: int
    """ns since the epoch"""


class KeyFile:
    """A key file; may be used by several threads."""

    def __init__(self, path: str = PATH, call_disk: CallDisk = without_timeout) -> None:
        """``call_disk``: how the disk is read; one that gives up leaves the key as it was."""
        self.path = path
        self._call_disk = call_disk
        self._lock = threading.Lock()
        self._key = b""
        self._seen: _Seen | None = None

    def key(self) -> bytes:
        """The whole file, its newline included; raises NoKey."""
        return self._current(again=False)

    def with_key(self, use: Callable[[bytes], _Result]) -> _Result:
        """Use the key; where a signature does not fit, again if the file now has another one.

        Raises NoKey and what ``use`` raises.
        """
        key = self.key()
        try:
            return use(key)
        except WrongSignature:
            other = self._current(again=True)
            if other == key:
                raise
            return use(other)

    def _current(self, *, again: bool) -> bytes:
        """The key, from the file where that is another one or ``again`` is set.

        A file that is gone takes its key with it: the node has left the cluster.  One that
        cannot be read for another reason, as on a dying disk, has still been the key.
        """
        with self._lock:
            try:
                seen = self._call_disk(lambda: _look(self.path))
                if again or seen != self._seen:
                    self._key, self._seen = self._call_disk(lambda: _read(self.path)), seen
            except (FileNotFoundError, NotADirectoryError):
                self._key, self._seen = b"", None
                raise NoKey(f"there is no key {self.path}") from None
            except UnsafeFile as err:
                self._key, self._seen = b"", None
                raise NoKey(f"the key {err}") from None
            except (OSError, ValueError) as err:
                if not self._key:
                    reason = getattr(err, "strerror", None) or err
                    raise NoKey(f"the key {self.path} cannot be read: {reason}") from None
            if len(self._key.strip(_NOTHING)) < _SHORTEST:
                raise NoKey(f"the key {self.path} has less than {_SHORTEST} bytes")
            return self._key


def _look(path: str) -> _Seen:
    found = os.stat(path)
    return _Seen(found.st_ino, found.st_size, found.st_mtime_ns)


def _read(path: str) -> bytes:
    return read_regular(path, _LONGEST)
