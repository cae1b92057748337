"""A site: its plugins as real modules, its configuration as a real file, real requests."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.message import write_answer
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.options import parse_options

Message = dict[str, Any]

#: Reads a recorded request by its name, to be changed as one likes.
Capture = Callable[[str], Message]

#: What every plugin of these tests imports.
IMPORTS: Final = """\
import itertools, math, os, sys, time
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.site_rules import PRIMARY, ROLES, SECONDARY, Ban, Cost
"""


@dataclass
class Site:
    """A place in the file system where plugins and a configuration lie."""

    path: Path
    log: str = ""

    @property
    def modules(self) -> Path:
        """Where the plugins lie; on the search path of this process."""
        return self.path / "modules"

    @property
    def config_file(self) -> Path:
        return self.path / "steward.toml"

    def plugin(self, name: str, source: str) -> None:
        """Write a plugin's module."""
        (self.modules / f"{name}.py").write_text(IMPORTS + dedent(source))
        importlib.invalidate_caches()

    def configure(self, *load: str, more: str = "", limit: float = 10) -> None:
        """Write the configuration: nothing kept, nothing logged outside."""
        text = f"""
        [plugins]
        load = {json.dumps(load)}
        time-limit = {limit}
        [history]
        keep = 0
        [log]
        file = "{self.log}"
        """
        self.config_file.write_text(dedent(text) + dedent(more))

    def ask(self, message: Message, *options: str, explain: bool = False) -> Outcome:
        """The allocator's outcome, in this process."""
        config = load_config(str(self.config_file))
        raw = json.dumps(message).encode()
        outcome = answer_message(raw, parse_options(options), config, explain=explain)
        self.check_answer(write_answer(outcome))
        return outcome

    def place(self, message: Message, *options: str) -> Any:
        """The result of a request that must be answered."""
        outcome = self.ask(message, *options)
        assert isinstance(outcome, Answer), outcome.info
        return outcome.result

    def refused(self, message: Message, *options: str) -> str:
        """Why a request is refused that must be."""
        outcome = self.ask(message, *options)
        assert isinstance(outcome, Refusal), outcome.info
        return outcome.info

    def run(self, message: Message, *options: str) -> Message:
        """The answer of the real program, which must keep its promises."""
        file = self.path / "message.json"
        file.write_text(json.dumps(message))
        environment = {
            "GNT_STEWARD_CONFIG": str(self.config_file),
            "PYTHONPATH": str(self.modules),
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
        }
        done = subprocess.run(
            [Path(sys.executable).parent / "steward-iallocator", file, *options],
            capture_output=True,
            check=False,
            env=environment,
            cwd="/",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return self.check_answer(done.stdout)

    @staticmethod
    def check_answer(raw: bytes) -> Message:
        """One JSON object on one line, of Ganeti's three keys."""
        assert raw.count(b"\n") == 1
        answer: Message = json.loads(raw)
        assert set(answer) == {"success", "info", "result"}
        return answer
