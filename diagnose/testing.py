"""A machine as it was recorded: for trying a collector without the hardware.

``DIRECTORY/root/...`` holds files by their absolute path; ``DIRECTORY/machine.json`` may hold
``files`` (absolute path -> text, for the many small ones of sysfs),
``commands`` (command line -> ``{"status": 0, "output": "...", "errors": "...", "fault": ""}``;
``output_file`` instead of ``output`` names a file in the same directory), ``links``, ``space``,
``modified`` (path -> seconds since the epoch), ``temperatures``, ``fans`` and ``kernel_log``
(lists of the values of `core.machine`), and
``refused`` (path -> the name of the error reading it ends with, ``EINVAL``).
A program is there when a command begins with its name.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.finding import CheckResult
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.model.machine import Machine, Reading, Space
from ganeti_steward.diagnose.run.loading import sources
from ganeti_steward.diagnose.sources import isolated


class RecordedMachine:
    """Implements `core.machine.Machine`; ``requests`` holds all that was read or run."""

    def __init__(self, directory: Path, **changed: Any) -> None:
        """``changed``: members of machine.json that are to be other ones."""
        self.directory = directory
        self.requests: list[str] = []
        self.kept: dict[str, bytes] = {}
        file = directory / "machine.json"
        self.recorded: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self.recorded |= changed

    def _file(self, path: str) -> Path:
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not an absolute path")
        if path in self.recorded.get("refused", {}):
            number = getattr(errno, self.recorded["refused"][path])
            raise OSError(number, os.strerror(number), path)
        return self.directory / "root" / path[1:]

    def read(self, path: str) -> bytes:
        """A recorded file's content; raises OSError."""
        self.requests.append(path)
        file = self._file(path)
        files = self.recorded.get("files", {})
        if path in files:
            return str(files[path]).encode(errors="surrogateescape")
        if not file.exists() and any(other.startswith(f"{path}/") for other in files):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return file.read_bytes()

    def listing(self, directory: str) -> Sequence[str]:
        """The names in a directory of which anything was recorded, sorted; raises OSError."""
        there, inside = self._file(directory), f"{directory}/"
        files = self.recorded.get("files", {})
        if directory in files:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
        names = {path[len(inside) :].split("/")[0] for path in files if path.startswith(inside)}
        if there.exists() or not names:
            names.update(os.listdir(there))
        return sorted(names)

    def target(self, link: str) -> str:
        """The target of a recorded symbolic link; raises OSError."""
        if link in self.recorded.get("links", {}):
            return str(self.recorded["links"][link])
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), link)

    def modified(self, path: str) -> float:
        """When a recorded file was written; raises OSError."""
        if self._file(path) and path in self.recorded.get("modified", {}):
            return float(self.recorded["modified"][path])
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def has(self, program: str) -> bool:
        """Whether any command of this program was recorded."""
        return any(line.split()[0] == program for line in self.recorded.get("commands", {}))

    def run(self, *command: str) -> Ended:
        """How a recorded command ended; raises OSError where there is no such program.

        Raises LookupError for a command line of the program that was not recorded.
        """
        line = " ".join(command)
        self.requests.append(line)
        if not self.has(command[0]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        if line not in self.recorded["commands"]:
            raise LookupError(f"{line!r} was not recorded")
        recorded = self.recorded["commands"][line]
        output = recorded.get("output", "")
        if "output_file" in recorded:
            output = (self.directory / recorded["output_file"]).read_text()
        return Ended(
            recorded.get("status", 0),
            output.encode(),
            recorded.get("errors", "").encode(),
            recorded.get("fault", ""),
        )

    def kernel_log(self) -> Sequence[str]:
        """The recorded messages; raises PermissionError where there are none."""
        if "kernel_log" not in self.recorded:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), "/dev/kmsg")
        return list(self.recorded["kernel_log"])

    def space(self, mount_point: str) -> Space:
        """A recorded filesystem's room; raises OSError."""
        if mount_point not in self.recorded.get("space", {}):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), mount_point)
        return Space(**self.recorded["space"][mount_point])

    def recalled(self, name: str) -> bytes:
        """What was kept on this machine, in this process."""
        return self.kept.get(name, b"")

    def remember(self, name: str, content: bytes) -> None:
        """Keep something in ``kept``."""
        self.kept[name] = content

    def temperatures(self) -> Sequence[Reading]:
        """The recorded temperatures."""
        return [Reading(**one) for one in self.recorded.get("temperatures", [])]

    def fans(self) -> Sequence[Reading]:
        """The recorded fans."""
        return [Reading(**one) for one in self.recorded.get("fans", [])]


def results_of(
    plugin: str, machine: Machine, settings: Mapping[str, Any] | None = None
) -> list[CheckResult]:
    """All that ``gnt-steward diagnose`` would get from a plugin on such a machine.

    The plugin is loaded by the name it has in ``[diagnose] load``, gets ``settings`` as its
    section ``[plugin.NAME]``, and runs in a process of its own.  What it must not report is
    an Unknown, as it is then.
    """
    alone = Diagnose(collectors=(), load=(plugin,), commands=())
    config = Config(sections={"diagnose": alone}, plugin={plugin: settings or {}})
    (source,) = sources(config, lambda _: machine)
    return isolated.run(source)
