"""A directory with a configuration, plugins, and the programs run with both."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import ClassVar, Final

#: Where the installed programs are.
PROGRAMS: Final = Path(sys.executable).parent


@dataclass(frozen=True)
class Done:
    """What came of a program."""

    status: int
    out: str
    err: str


@dataclass
class Workspace:
    """Everything a test gives to Steward lies below ``path``."""

    path: Path

    #: What every plugin begins with.
    IMPORTS: ClassVar[str] = ""

    @property
    def modules(self) -> Path:
        """Where the plugins lie."""
        return self.path / "modules"

    @property
    def config_file(self) -> Path:
        return self.path / "steward.toml"

    def write_configuration(self, *parts: str) -> None:
        """Write the configuration; a log only where a part names one."""
        self.config_file.write_text("\n".join(dedent(part).strip("\n") for part in parts) + "\n")

    def plugin(self, name: str, source: str) -> None:
        """Write a plugin's module."""
        self.modules.mkdir(exist_ok=True)
        (self.modules / f"{name}.py").write_text(self.IMPORTS + dedent(source))
        importlib.invalidate_caches()

    @contextmanager
    def imported(self) -> Iterator[None]:
        """This process, too, finds the plugins; afterwards it knows none of them."""
        self.modules.mkdir(exist_ok=True)
        sys.path.insert(0, str(self.modules))
        try:
            yield
        finally:
            sys.path.remove(str(self.modules))
            own = {path.stem for path in self.modules.iterdir()}
            for name in [name for name in sys.modules if name.partition(".")[0] in own]:
                del sys.modules[name]

    def process(self, program: str, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """One of the programs as a process; it must not end in a traceback."""
        done = subprocess.run(
            [PROGRAMS / program, *arguments],
            capture_output=True,
            check=False,
            text=True,
            errors="surrogateescape",
            input=stdin,
            cwd=self.path,
            timeout=300,
            env={
                "GNT_STEWARD_CONFIG": str(self.config_file),
                "PYTHONPATH": str(self.modules),
                "PATH": os.environ["PATH"],
                "LC_ALL": "C",
                **environment,
            },
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)
