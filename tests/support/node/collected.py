"""Asking one collector, damaging what it reads, and what every answer must be like."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from random import Random
from typing import Any, Final

from paths import DATA
from thorough import often

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.hooks.loading import configure
from ganeti_steward.core.model.finding import STATUSES, CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.model.machine import Machine, Reading, Space
from ganeti_steward.diagnose.testing import RecordedMachine

#: How often a collector is run on damaged answers.
ROUNDS: Final = often(60, 300)

RECORDED: Final = DATA / "diagnose"


def collect(name: str, machine: Machine, **settings: Any) -> list[CheckResult]:
    """All a collector says; settings with underscores for dashes."""
    module = import_module(f"ganeti_steward.diagnose.collectors.{name}")
    given = {key.replace("_", "-"): value for key, value in settings.items()}
    results = list(made(module.Collector(), name, given).steward_diagnose(machine))
    check(name, results)
    return results


def made(collector: Any, name: str, given: Mapping[str, Any]) -> Any:
    """A collector with a section ``[collector.NAME]``; raises BadSettings."""
    configure(Config(collector={name: given}), name, collector)
    return collector


def recorded(name: str, case: str, **changed: Any) -> RecordedMachine:
    """A recorded case; ``files`` are added to its own."""
    machine = RecordedMachine(RECORDED / name / case, **changed)
    if "files" in changed:
        file = machine.directory / "machine.json"
        files = json.loads(file.read_text()).get("files", {}) | changed["files"]
        # None takes a file away.
        machine.recorded["files"] = {path: text for path, text in files.items() if text is not None}
    return machine


def faults(results: Sequence[CheckResult]) -> dict[str, list[str]]:
    """The findings that are not Ok, by source."""
    found: dict[str, list[str]] = {}
    for one in results:
        if isinstance(one, Finding) and one.status != "Ok":
            found.setdefault(one.source, []).extend(one.details["faults"])
    return found


def unknown(results: Sequence[CheckResult]) -> dict[str, str]:
    return {one.source: one.reason for one in results if isinstance(one, Unknown)}


def fine(results: Sequence[CheckResult]) -> list[str]:
    """The sources that are Ok."""
    return [one.source for one in results if isinstance(one, Finding) and one.status == "Ok"]


def check(name: str, results: Sequence[CheckResult]) -> None:
    """What holds for all a collector may say."""
    assert results, "no result was returned"
    assert len(set(map(str, results))) == len(results), f"twice: {results}"
    silent = [one.source for one in results if not isinstance(one, Finding) or one.status != "Ok"]
    # Fine stands alone: never together with a fault or an unknown of the same source.
    assert not set(fine(results)) & set(silent)
    for one in results:
        assert isinstance(one, Finding | Unknown | NotApplicable)
        assert one.source.split(":", 1)[0] == name
        assert one.source.isprintable()
        if isinstance(one, Finding):
            assert one.status in STATUSES
            assert (one.details is None) == (one.status == "Ok")
            json.dumps(one.details).encode("ascii")
        else:
            assert one.reason
            assert one.reason.isprintable(), repr(one.reason)


_NUMBER: Final = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
#: What stands where a number should be: beyond 64 bits, a float, what Python reads, and no number.
NUMBERS: Final = (
    *(b"18446744073709551616", b"9" * 400, b"9" * 5000, b"1e999", b"-1e999", b"0." + b"1" * 400),
    *(b"nan", b"inf", b"-0", b"1_0", b"0x10", b"0"),
)


class Damaged:
    """A machine each of whose answers may be cut, replaced or refused."""

    def __init__(self, sound: RecordedMachine, chance: Random, rate: float = 0.3) -> None:
        self._sound, self._chance, self._rate = sound, chance, rate

    def _now(self) -> bool:
        return self._chance.random() < self._rate

    def _refuse(self, path: str) -> None:
        if self._now() and self._chance.random() < 0.3:
            number = self._chance.choice([errno.EIO, errno.EACCES, errno.EINVAL, errno.ENOENT])
            raise OSError(number, "refused", path)

    def _spoil(self, data: bytes) -> bytes:
        if not self._now():
            return data
        numbers = [*_NUMBER.finditer(data)]
        if numbers and self._chance.random() < 0.4:
            number = self._chance.choice(numbers)
            return data[: number.start()] + self._chance.choice(NUMBERS) + data[number.end() :]
        start = self._chance.randrange(len(data) + 1)
        end = self._chance.randrange(start, len(data) + 1)
        nonsense: list[Callable[[], bytes]] = [
            lambda: b"",
            lambda: self._chance.randbytes(end - start),
            lambda: b"\xff\x00 - ,;:=\n" * 3,
            lambda: b"-1",
            "\u0663".encode,
            lambda: b"nan",
        ]
        return data[:start] + self._chance.choice(nonsense)() + data[end:]

    def read(self, path: str) -> bytes:
        self._refuse(path)
        return self._spoil(self._sound.read(path))

    def listing(self, directory: str) -> Sequence[str]:
        self._refuse(directory)
        names = self._sound.listing(directory)
        return [name for name in names if not self._now()]

    def target(self, link: str) -> str:
        self._refuse(link)
        return self._sound.target(link)

    def modified(self, path: str) -> float:
        self._refuse(path)
        odd = self._chance.choice([-1.0, 0.0, 1e300, 7.5])
        return odd if self._now() else self._sound.modified(path)

    def has(self, program: str) -> bool:
        return self._sound.has(program)

    def run(self, *command: str) -> Ended:
        self._refuse(command[0])
        try:
            ended = self._sound.run(*command)
        except LookupError:
            # Of a device that only the damage names.
            return Ended(2, b"", b"there is no such device")
        if self._now() and self._chance.random() < 0.3:
            return ended._replace(status=-9, fault="killed after 60 s")
        return ended._replace(output=self._spoil(ended.output))

    def kernel_log(self) -> Sequence[str]:
        self._refuse("/dev/kmsg")
        return [
            self._spoil(record.encode()).decode(errors="replace")
            for record in self._sound.kernel_log()
        ]

    def space(self, mount_point: str) -> Space:
        self._refuse(mount_point)
        space = self._sound.space(mount_point)
        if not self._now():
            return space
        figure = self._chance.choice([-1, 0, 2**64, 7])
        return space._replace(**{self._chance.choice(["size", "available", "files"]): figure})

    def recalled(self, name: str) -> bytes:
        self._refuse(name)
        return self._spoil(self._sound.recalled(name))

    def remember(self, name: str, content: bytes) -> None:
        self._refuse(name)
        self._sound.remember(name, content)

    def temperatures(self) -> Sequence[Reading]:
        return [self._reading(one) for one in self._sound.temperatures()]

    def fans(self) -> Sequence[Reading]:
        return [self._reading(one) for one in self._sound.fans()]

    def _reading(self, one: Reading) -> Reading:
        if not self._now():
            return one
        odd = self._chance.choice([float("nan"), float("inf"), -273.0, 0.0, 127.0, 65261.85])
        changed: dict[str, Any] = {self._chance.choice(["current", "high", "critical"]): odd}
        return one._replace(**changed)


def survives(name: str, case: str, rounds: int = ROUNDS, **settings: Any) -> None:
    """Ask a collector on damaged answers; `check` judges each time."""
    sound = recorded(name, case)
    for seed in range(rounds):
        collect(name, Damaged(sound, Random(seed)), **settings)
