"""A node to be diagnosed: plugins as real modules, a configuration as a real file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import ClassVar, Final

from workspace import Workspace

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.ganeti.this_node import ThisNode
from ganeti_steward.core.model.finding import CheckResult
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.model.machine import Machine
from ganeti_steward.diagnose.run.gathering import gather
from ganeti_steward.diagnose.run.loading import sources
from ganeti_steward.diagnose.run.running import Run, diagnose_node
from ganeti_steward.diagnose.sources.isolated import Source
from ganeti_steward.diagnose.testing import RecordedMachine

#: What every plugin of these tests imports.
IMPORTS: Final = """\
import ctypes, itertools, os, signal, sys, time
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
"""

NODE: Final = ThisNode("node1.example.com", "8a1b4f2e-5a2b-4d3c-9e1f-0123456789ab", "192.0.2.1")

#: ns since the epoch.
NOW: Final = 1_700_000_000_123_456_000


@dataclass
class Site(Workspace):
    """A workspace of a node that is to be diagnosed."""

    IMPORTS: ClassVar[str] = IMPORTS

    machine: Callable[[float], Machine] = field(init=False)

    def __post_init__(self) -> None:
        self.machine = lambda limit: RecordedMachine(self.path)

    @property
    def directory(self) -> Path:
        """Where the state and the report are."""
        return self.path / "diagnose"

    def configure(
        self,
        *load: str,
        collectors: Sequence[str] = (),
        more: str = "",
        tables: str = "",
        limit: float = 120,
    ) -> None:
        """Write the configuration; no command is run unless ``more`` configures it.

        Findings count at once, unless it configures that.
        """
        text = f"""
        [diagnose]
        collectors = {json.dumps(collectors)}
        load = {json.dumps(load)}
        directory = "{self.directory}"
        time-limit = {limit}
        """
        more = dedent(more)
        for key, value in (("commands", "[]"), ("appear-after", "1"), ("clear-after", "1")):
            if key not in more:
                more = f"{key} = {value}\n{more}"
        self.write_configuration(text, more, '[log]\nfile = ""', tables)

    @property
    def config(self) -> Config:
        return load_config(str(self.config_file))

    def sources(self, commands: str = "/nonexistent") -> list[Source]:
        return list(sources(self.config, self.machine, commands))

    def results(self, commands: str = "/nonexistent") -> list[CheckResult]:
        """The results of all sources, in their order."""
        return [one for source in gather(self.sources(commands)) for one in source.results]

    def run(self, *, keep: bool = True, commands: str = "/nonexistent") -> Run:
        """One run in this process."""
        return diagnose_node(
            self.config.section(Diagnose),
            self.sources(commands),
            keep=keep,
            node=lambda: NODE,
            now=lambda: NOW,
        )
