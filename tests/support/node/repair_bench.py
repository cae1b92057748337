"""An agent's repairs without the agent: the clock and the commands are a test's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from repair_requests import KEY, NODE, RSALT

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import verify
from ganeti_steward.core.node_agent.protocol import CommandEnd, RepairRequest
from ganeti_steward.diagnose.agent.memory import Memory
from ganeti_steward.diagnose.agent.nonces import Nonces
from ganeti_steward.diagnose.agent.penalties import LONGEST, Penalties
from ganeti_steward.diagnose.agent.repairs import RepairRefused, Repairs
from ganeti_steward.diagnose.agent.takeover import Takeover

MASTER: Final = "192.0.2.1"
FORGER: Final = "192.0.2.66"
LIFE: Final = 30.0

Execute = Callable[[RepairRequest], CommandEnd]


class Bench:
    """An agent's repairs, whose clock and commands are a test's."""

    def __init__(self, path: Path, now: float = 1000.0, again_after: float = 0) -> None:
        """``path``: where the node keeps what outlives its agent; ``now``: s, for all clocks.

        ``again_after``: see `Memory`.
        """
        self.now, self.again_after = now, again_after
        self.run: list[RepairRequest] = []
        self.execute: Execute = lambda _: CommandEnd(0, "done\n")
        self.runs_commands = True
        self.takeover: Takeover | None = None
        self.memory = path / "diagnose" / "commands"
        self.key_file = path / "hmac.key"
        self.key_file.write_bytes(KEY)
        self.repairs = self.process()

    def process(self) -> Repairs:
        """What another process on the same node is."""
        numbers: Iterator[int] = count()
        random = Random(repr(self))
        return Repairs(
            KeyFile(str(self.key_file)),
            NODE.is_called,
            self._execute,
            Nonces(lambda: f"{random.randbytes(16).hex()}{next(numbers)}", lambda: self.now, LIFE),
            Penalties(lambda: self.now),
            Memory(str(self.memory), lambda: self.now, self.again_after),
            runs_commands=self.runs_commands,
            takeover=self.takeover,
        )

    def _execute(self, request: RepairRequest) -> CommandEnd:
        outcome = self.execute(request)
        self.run.append(request)
        return outcome

    def nonce(self, caller: str = MASTER) -> str:
        return self.repairs.nonce(caller)

    def ask(self, raw: bytes, caller: str = MASTER) -> dict[str, Any] | None:
        """What a caller is answered; None for a refusal."""
        return self._answered(self.repairs.repair, raw, caller)

    def query(self, raw: bytes, caller: str = MASTER) -> dict[str, Any] | None:
        """What a caller is answered to a question; None for a refusal."""
        return self._answered(self.repairs.state, raw, caller)

    def _answered(
        self, call: Callable[[str, bytes], bytes], raw: bytes, caller: str
    ) -> dict[str, Any] | None:
        try:
            answer = call(caller, raw)
        except RepairRefused:
            return None
        content: dict[str, Any] = json.loads(verify(self.key_file.read_bytes(), answer, RSALT))
        return content

    def wait(self, seconds: float = LONGEST) -> None:
        """Let every penalty pass."""
        self.now += seconds
