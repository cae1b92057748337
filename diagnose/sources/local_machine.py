"""The machine this program runs on."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

from ganeti_steward.core.model.machine import Reading, Space
from ganeti_steward.core.process import ENVIRONMENT, Ended, run_program
from ganeti_steward.core.process_group import Ladder
from ganeti_steward.core.trusted_program import Forbidden, opened_program

#: Bytes of one file that are read.
_FILE_LIMIT: Final = 4 * 2**20

#: Bytes of one record of the kernel's log; the kernel gives no longer ones.
_RECORD: Final = 8192

#: A collector whose time is over has to end its programs before it is killed itself.
_LADDER: Final[Ladder] = ((signal.SIGTERM, 0.05), (signal.SIGKILL, 0.05))


class LocalMachine:
    """Answers until a moment of `time.monotonic`; implements `core.machine.Machine`."""

    def __init__(
        self,
        until: float,
        clock: Callable[[], float] = time.monotonic,
        recalled: Callable[[str], bytes] = lambda name: b"",
        remember: Callable[[str, bytes], None] = lambda name, content: None,
    ) -> None:
        self._until, self._clock = until, clock
        self._recalled, self._remember = recalled, remember

    def read(self, path: str) -> bytes:
        """A file's content, 4 MiB of it at most; raises OSError."""
        with open(path, "rb") as file:
            return file.read(_FILE_LIMIT)

    def listing(self, directory: str) -> Sequence[str]:
        """The names in a directory, sorted; raises OSError."""
        return sorted(os.listdir(directory))

    def target(self, link: str) -> str:
        """The target of a symbolic link; raises OSError."""
        return os.readlink(link)

    def has(self, program: str) -> bool:
        """Whether there is a program of this name in the usual places."""
        return shutil.which(program, path=ENVIRONMENT["PATH"]) is not None

    def run(self, *command: str) -> Ended:
        """Run a program without input; raises OSError."""
        path = shutil.which(command[0], path=ENVIRONMENT["PATH"])
        if path is None:
            raise FileNotFoundError(errno.ENOENT, "no such program", command[0])
        try:
            with opened_program(path) as program:
                limit = max(self._until - self._clock(), 0.1)
                return run_program([path, *command[1:]], limit, executable=program, ladder=_LADDER)
        except Forbidden as err:
            raise PermissionError(errno.EACCES, f"not run: {err}", path) from None

    def kernel_log(self) -> Sequence[str]:
        """The records of ``/dev/kmsg``; raises OSError."""
        records = []
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while self._clock() < self._until:
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
        found = os.statvfs(mount_point)
        return Space(
            found.f_blocks * found.f_frsize,
            found.f_bavail * found.f_frsize,
            found.f_files,
            found.f_favail,
        )

    def recalled(self, name: str) -> bytes:
        """What an earlier run kept; raises OSError."""
        return self._recalled(name)

    def remember(self, name: str, content: bytes) -> None:
        """Keep something for later runs; raises OSError."""
        self._remember(name, content)

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
