"""What collectors keep from run to run, a file for each in the directory of the diagnosis."""

from __future__ import annotations

import errno
import os
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.safe_files import read_own
from ganeti_steward.diagnose.run.files import prepare_directory, write_file

#: Bytes of one file.
_LONGEST: Final = 2**20


class Memory:
    """Files ``kept-NAME``; without a directory nothing is kept."""

    def __init__(self, directory: str = "") -> None:
        self._directory = directory

    def read(self, name: str) -> bytes:
        """What was kept; empty when nothing was; raises OSError."""
        if not self._directory:
            return b""
        try:
            prepare_directory(self._directory)
            return read_own(self._path(name), _LONGEST)
        except FileNotFoundError:
            return b""
        except StewardError as err:
            raise OSError(errno.EACCES, str(err)) from err

    def write(self, name: str, content: bytes) -> None:
        """Keep it for the next run; raises OSError."""
        if not self._directory:
            return
        try:
            prepare_directory(self._directory)
            write_file(self._path(name), content)
        except StewardError as err:
            raise OSError(errno.EACCES, str(err)) from err

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, f"kept-{name}")
