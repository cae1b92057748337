"""The machine this program runs on."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.process.following import Ended, Ladder
from ganeti_steward.core.process.program import ENVIRONMENT, run_program
from ganeti_steward.core.process.trusted_program import Forbidden, opened_program
from ganeti_steward.core.safe_files import read_own
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.diagnose.model.machine import Reading, Space
from ganeti_steward.diagnose.run.files import prepare_directory

#: Bytes of one file that are read, and of one that was kept.
_FILE_LIMIT: Final = 4 * 2**20
_KEPT_LIMIT: Final = 2**20

#: Bytes that are read at a time: files below ``/proc/sys`` refuse 4 MiB with ENOMEM.
_PIECE: Final = 2**16

#: Bytes of one record of the kernel's log; the kernel gives no longer ones.
_RECORD: Final = 8192

#: A collector whose time is over has to end its programs before it is killed itself.
_LADDER: Final[Ladder] = ((signal.SIGTERM, 0.05), (signal.SIGKILL, 0.05))


def _found(program: str) -> str:
    """The path of a program in the usual places, empty where there is none.

    As `shutil.which`, without the archives that are imported with it.
    """
    paths = (os.path.join(place, program) for place in ENVIRONMENT["PATH"].split(":"))
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


class LocalMachine:
    """Answers until a moment of `time.monotonic`; implements `core.machine.Machine`.

    What is kept for later runs are files ``kept-NAME`` in a directory; without one nothing is.
    """

    def __init__(self, until: float, directory: str = "") -> None:
        self._until, self._directory = until, directory

    def read(self, path: str) -> bytes:
        """A file's content, 4 MiB of it at most; raises OSError."""
        content = b""
        with open(path, "rb", buffering=0) as file:
            while len(content) < _FILE_LIMIT and (piece := file.read(_PIECE)):
                content += piece
        return content

    def listing(self, directory: str) -> Sequence[str]:
        """The names in a directory, sorted; raises OSError."""
        return sorted(os.listdir(directory))

    def target(self, link: str) -> str:
        """The target of a symbolic link; raises OSError."""
        return os.readlink(link)

    def modified(self, path: str) -> float:
        """When a file was last written or touched, seconds since the epoch; raises OSError."""
        return os.stat(path).st_mtime

    def has(self, program: str) -> bool:
        """Whether there is a program of this name in the usual places."""
        return bool(_found(program))

    def run(self, *command: str) -> Ended:
        """Run a program without input; raises OSError."""
        path = _found(command[0])
        if not path:
            raise FileNotFoundError(errno.ENOENT, "no such program", command[0])
        try:
            with opened_program(path) as program:
                limit = max(self._until - time.monotonic(), 0.1)
                return run_program([path, *command[1:]], limit, executable=program, ladder=_LADDER)
        except Forbidden as err:
            raise PermissionError(errno.EACCES, f"not run: {err}", path) from None

    def kernel_log(self) -> Sequence[str]:
        """The records of ``/dev/kmsg``; raises OSError."""
        records = []
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while time.monotonic() < self._until:
                try:
                    records.append(os.read(descriptor, _RECORD).decode(errors="replace"))
                except BrokenPipeError:
                    # It was overwritten while being read; the next one is there.
                    continue
                except BlockingIOError:
                    break
        finally:
            os.close(descriptor)
        return records

    def space(self, mount_point: str) -> Space:
        """A mounted filesystem's room; raises OSError."""
        sizes = os.statvfs(mount_point)
        return Space(
            sizes.f_blocks * sizes.f_frsize,
            sizes.f_bavail * sizes.f_frsize,
            sizes.f_files,
            sizes.f_favail,
        )

    def recalled(self, name: str) -> bytes:
        """What an earlier run kept; empty when nothing was; raises OSError."""
        if not self._directory:
            return b""
        try:
            return read_own(self._kept(name), _KEPT_LIMIT)
        except FileNotFoundError:
            return b""
        except StewardError as err:
            raise OSError(errno.EACCES, str(err)) from err

    def remember(self, name: str, content: bytes) -> None:
        """Keep something for later runs; raises OSError."""
        if not self._directory:
            return
        try:
            write_file(self._kept(name), content)
        except StewardError as err:
            raise OSError(errno.EACCES, str(err)) from err

    def forget(self, name: str) -> None:
        """Remove what was kept; raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, f"kept-{name}"))

    def _kept(self, name: str) -> str:
        """The file, in a directory that can be used; raises StewardError."""
        prepare_directory(self._directory)
        return os.path.join(self._directory, f"kept-{name}")

    def temperatures(self) -> Sequence[Reading]:
        """All temperatures the kernel knows."""
        import psutil

        return [
            Reading(chip, one.label, one.current, one.high, one.critical)
            for chip, found in psutil.sensors_temperatures().items()
            for one in found
        ]

    def fans(self) -> Sequence[Reading]:
        """All fans the kernel knows."""
        import psutil

        return [
            Reading(chip, one.label, float(one.current))
            for chip, found in psutil.sensors_fans().items()
            for one in found
        ]
