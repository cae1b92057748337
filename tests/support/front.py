"""Calling ``gnt-steward`` in this process, and both programs as real processes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

from paths import CAPTURES

from ganeti_steward.core.commands import main as cli

if TYPE_CHECKING:
    import pytest

Message = dict[str, Any]

PROGRAMS: Final = Path(sys.executable).parent


@dataclass(frozen=True)
class Done:
    """What came of a call."""

    status: int
    out: str
    err: str


@dataclass
class Front:
    """The command with a configuration and plugins of its own."""

    path: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def config_file(self) -> Path:
        return self.path / "steward.toml"

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
        self.config_file.write_text(dedent(own) + dedent(text))

    def plugin(self, name: str, source: str) -> None:
        """Write a plugin's module."""
        (self.path / f"{name}.py").write_text(dedent(source))
        importlib.invalidate_caches()

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

    def process(self, program: str, *arguments: str, stdin: str = "", **environment: str) -> Done:
        done = subprocess.run(
            [PROGRAMS / program, *arguments],
            capture_output=True,
            check=False,
            text=True,
            errors="surrogateescape",
            input=stdin,
            cwd=self.path,
            timeout=120,
            env={
                "GNT_STEWARD_CONFIG": str(self.config_file),
                "PYTHONPATH": str(self.path),
                "PATH": os.environ["PATH"],
                "LC_ALL": "C",
                **environment,
            },
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


def capture(name: str) -> Message:
    """A recorded request, to be changed as one likes."""
    message: Message = json.loads((CAPTURES / f"{name}.in.json").read_text())
    return message
