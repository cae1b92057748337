"""A recording: a file with a line for each moment in which a step decides.

A line has only what is not as in the line before.  So after a line that could not be written, and
where the file is not as this process has left it, the next line has everything, and says how many
moments are missing before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, get_type_hints

from ganeti_steward.core.config.declaration import keys
from ganeti_steward.core.safe_files import open_own
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.core.typed_json import to_json
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.replay import (
    CONFIGURATION,
    FORMAT,
    INCIDENTS,
    MISSING,
    WORLD,
)
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.model.world import World

_ordered: Final = partial(to_json, ordered=True)


class MomentLines:
    """Makes a line for each moment."""

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}
        self._missing = 0
        """moments before the next line that no file has"""

    def line(self, inputs: Inputs, settings: Maintd) -> bytes:
        """The line of one moment, without what is as in the line before."""
        whole = {CONFIGURATION: _configuration(settings), **_ordered(Inputs, inputs)}
        # With defaults, too: what is missing would be as in the line before.
        types = get_type_hints(World)
        whole[WORLD] = {
            name: _ordered(types[name], one) for name, one in inputs.world._asdict().items()
        }
        line = {**whole, WORLD: self._changed(WORLD, whole), "format": FORMAT}
        line[CONFIGURATION] = self._changed(CONFIGURATION, whole)
        if self._missing:
            line[MISSING] = self._missing
        self._before, self._missing = whole, 0
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"

    def begin(self, missing: int = 0) -> None:
        """Have the next line depend on none before; ``missing``: moments that are lost."""
        self._before, self._missing = {}, missing

    def _changed(self, name: str, whole: Mapping[str, Any]) -> dict[str, Any]:
        before = self._before.get(name, {})
        return {
            key: value
            for key, value in whole[name].items()
            if key == INCIDENTS or key not in before or before[key] != value
        }


def _configuration(settings: Maintd) -> dict[str, Any]:
    values = ((key.name, getattr(settings, key.field)) for key in keys(Maintd))
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values}


class _Place(NamedTuple):
    """What distinguishes a file that no other program has changed."""

    inode: int
    size: int


class Recording:
    """The file; opened for each line, for it may be moved, removed or cut off at any time."""

    def __init__(self, path: str, call_disk: CallDisk = without_timeout) -> None:
        """``call_disk``: how the disk is written."""
        self._path, self._call_disk = path, call_disk
        self._lines, self._lost = MomentLines(), 0
        self._left: _Place | None = None
        """the file as it was after the last line; None: that is not known"""

    def begin(self) -> None:
        """Make the file where there is none; raises OSError, UnsafeFile."""
        os.close(open_own(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT))

    def __call__(self, inputs: Inputs, settings: Maintd) -> None:
        """Add a line; raises OSError, UnsafeFile: the file is as it was then, if possible."""
        try:
            if self._lost or not self._call_disk(self._is_as_left):
                self._lines.begin(self._lost)
            self._call_disk(partial(self._append, self._lines.line(inputs, settings)))
        except BaseException:
            self._lost += 1
            raise
        self._lost = 0

    def _is_as_left(self) -> bool:
        with suppress(FileNotFoundError):
            return _place(os.stat(self._path)) == self._left
        return False

    def _append(self, line: bytes) -> None:
        descriptor = open_own(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # Another process was killed, or its disk was full, in the middle of a line.
                line = b"\n" + line
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except OSError:
                # A part of a line would be one that cannot be read.
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
            self._left = _place(os.fstat(descriptor))
        finally:
            os.close(descriptor)


def _place(status: os.stat_result) -> _Place:
    return _Place(status.st_ino, status.st_size)
