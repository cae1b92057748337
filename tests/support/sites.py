"""A site: its plugins as real modules, its configuration as a real file, real requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from workspace import Workspace

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
class Site(Workspace):
    """A workspace whose plugins a request is answered with."""

    IMPORTS: ClassVar[str] = IMPORTS

    log: str = ""

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
        self.write_configuration(text, more)

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
        done = self.process("steward-iallocator", str(file), *options)
        assert done.status == 0, done.err
        return self.check_answer(done.out.encode())

    @staticmethod
    def check_answer(raw: bytes) -> Message:
        """One JSON object on one line, of Ganeti's three keys."""
        assert raw.count(b"\n") == 1
        answer: Message = json.loads(raw)
        assert set(answer) == {"success", "info", "result"}
        return answer
