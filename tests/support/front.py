"""Calling ``gnt-steward`` in this process, and both programs as real processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paths import CAPTURES
from workspace import Done, Workspace

from ganeti_steward.core.commands import main as cli

if TYPE_CHECKING:
    import pytest

Message = dict[str, Any]


@dataclass
class Front(Workspace):
    """The command with a configuration and plugins of its own."""

    capsys: pytest.CaptureFixture[str]

    @property
    def history(self) -> Path:
        return self.path / "history"

    def configure(self, text: str = "", keep: int = 0) -> None:
        """Write the configuration; nothing is kept or logged outside of ``path``."""
        own = f"""
        [history]
        keep = {keep}
        directory = "{self.history}"
        [log]
        file = ""
        """
        self.write_configuration(own, text)

    def message(self, message: Message, name: str = "message.json") -> str:
        """Write a request into a file; the file's name."""
        file = self.path / name
        file.write_text(json.dumps(message))
        return str(file)

    def __call__(self, *arguments: str) -> Done:
        """``gnt-steward``, in this process."""
        self.capsys.readouterr()
        try:
            status = cli.main(arguments)
        except SystemExit as err:
            status = err.code if isinstance(err.code, int) else 1
        printed = self.capsys.readouterr()
        assert "Traceback" not in printed.err
        return Done(status, printed.out, printed.err)

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """``gnt-steward`` as a process."""
        return self.process("gnt-steward", *arguments, stdin=stdin, **environment)

    def allocate(self, file: str, *options: str) -> Done:
        """Ganeti's call of the allocator, as a process."""
        return self.process("steward-iallocator", file, *options)


def capture(name: str) -> Message:
    """A recorded request, to be changed as one likes."""
    message: Message = json.loads((CAPTURES / f"{name}.in.json").read_text())
    return message
