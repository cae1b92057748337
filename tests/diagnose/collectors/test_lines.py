"""Recorded machines, a broken and a healthy one for each kind of fault, observed over many runs.

A file in ``tests/data/diagnose/lines`` holds in what both differ from a recorded machine, ``base``:
``files``, ``links``, ``refused`` and ``modified`` are added (null takes a file away),
``seconds-ago`` are files that are always as old, ``outputs`` and ``texts`` are substitutions
(regular expressions) in what a program prints and in a file, ``kernel_log`` are more messages,
``without`` is a program that is not there, ``a-day`` are counters that increase by so much a day,
and ``moment`` is what is different in a few runs only.  ``expected`` are the faults of the broken
one, ``later`` is how many runs more than others it takes to find them.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from asserting import some
from collected import RECORDED, collect, faults, fine, recorded, unknown
from thorough import often

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.model.finding import OK, CheckResult, Finding, Unknown
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.model.diagnosis import Diagnosis, Several, diagnosis
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, update
from ganeti_steward.diagnose.testing import RecordedMachine

LINES: Final = sorted((RECORDED / "lines").glob("*.json"))

RUNS: Final = often(12, 50, 12)
SEEDS: Final = often(1, 4)

#: Another source, of which something is always known: so one that is unknown leaves a verdict.
OTHER: Final = Finding("filesystems:/", OK)

#: Seconds: since the start when the first run begins, from the first run to the second, which
#: is a day so that counters are known, and between all others.
STARTED: Final = 2_000_000.0
FIRST_PAUSE: Final = 86_400.0
PAUSE: Final = 1800.0
#: Since the epoch, as /proc/stat has it in the recordings.
BOOT: Final = 1_700_000_000

#: By default a finding takes effect in the second run; where counters make it, that is the third.
IN_EFFECT: Final = 2


class Noisy(RecordedMachine):
    """A recorded machine in one run: its clock, its temperatures and its order of things move."""

    def __init__(
        self, line: dict[str, Any], kind: str, run: int, chance: Random, *, failing: bool
    ) -> None:
        change = dict(line[kind])
        if run in change.get("during", ()):
            for key, more in change.get("moment", {}).items():
                change[key] = {**change.get(key, {}), **more}
        name, _, case = line["base"].partition("/")
        super().__init__(RECORDED / name / case)
        self._change, self._chance, self._failing = change, chance, failing
        self._progress = Random(run)
        self._hot, self._uptime = kind == "broken", STARTED + (run > 0) * FIRST_PAUSE + run * PAUSE
        self._days = (self._uptime - STARTED) / 86_400
        for key in ("files", "links", "refused", "modified"):
            merged = {**self.recorded.get(key, {}), **change.get(key, {})}
            self.recorded[key] = {path: one for path, one in merged.items() if one is not None}
        self.recorded["files"]["/proc/uptime"] = f"{self._uptime:.2f} 1.00\n"

    def read(self, path: str) -> bytes:
        """With the noise of figures; a file that fails does so in this run only."""
        text = super().read(path).decode(errors="surrogateescape")
        if self._failing and self._chance.random() < 0.2 and path != "/proc/uptime":
            raise OSError(errno.EIO, "Input/output error", path)
        if path == "/proc/drbd":
            text = re.sub("(?<= oos:)[1-9][0-9]*", self._less, text)
        for pattern, new in self._change.get("texts", {}).get(path, ()):
            text = re.sub(pattern, new, text, count=1)
        if path in self._change.get("a-day", {}):
            text = f"{int(text) + int(self._change['a-day'][path] * self._days)}\n"
        if re.search(r"/temp[0-9]+_input$", path):
            moved = self._chance.randrange(1500) * (1 if self._hot else -3)
            text = f"{int(text) + moved}\n"
        return text.replace("{now}", str(int(BOOT + self._uptime) - 20)).encode(
            errors="surrogateescape"
        )

    def modified(self, path: str) -> float:
        """Files that something touches again and again are as old in each run."""
        ago = self._change.get("seconds-ago", {}).get(path)
        return super().modified(path) if ago is None else BOOT + self._uptime - ago

    def has(self, program: str) -> bool:
        return program != self._change.get("without") and super().has(program)

    def run(self, *command: str) -> Ended:
        """Slow or failing in some runs; what programs print changes its order and its times."""
        if self._failing:
            fault = self._chance.choice(("", "killed after 60 s"))
            return Ended(-9 if fault else 1, b"", b"", fault)
        done, line = super().run(*command), " ".join(command)
        text = re.sub('(?<="out-of-sync": )[1-9][0-9]*', self._less, done.output.decode())
        for pattern, new in self._change.get("outputs", {}).get(line, ()):
            text = re.sub(pattern, new, text, count=1, flags=re.DOTALL)
        if line.endswith("sdr elist"):
            text = "".join(self._shuffled(text.splitlines(keepends=True)))
            text = re.sub(r"(?<=,)4300(?=,RPM)", str(4000 + self._chance.randrange(500)), text)
        if line.endswith("sel list"):
            text = re.sub(r"2024,", f"{2010 + self._chance.randrange(14)},", text)
        text = re.sub(r'("hours": )[0-9]+', rf"\g<1>{int(self._uptime) // 3600}", text)
        return done._replace(output=text.encode())

    def kernel_log(self) -> Sequence[str]:
        """The machine's own messages, and those of the line an hour ago, among each other."""
        own = self._change.get("kernel_log", [])
        then = str(int((self._uptime - 3600) * 1e6))
        return self._shuffled([*super().kernel_log(), *(one.replace("{us}", then) for one in own)])

    def _less(self, figure: re.Match[str]) -> str:
        """Some of what was left to copy has been copied."""
        return str(int(figure[0]) - self._progress.randrange(1_000_000))

    def _shuffled(self, lines: Sequence[str]) -> list[str]:
        return self._chance.sample(lines, len(lines))


class Observed:
    """What a node reports about one machine, run by run."""

    def __init__(self, line: dict[str, Any], kind: str, seed: int) -> None:
        chance = Random(f"{line['about']} {kind} {seed}")
        # One run in which programs or files fail; some in a row that are a moment of their own.
        failing, moment = chance.randrange(3, RUNS), chance.randrange(3, RUNS - 3)
        line[kind] = {**line[kind], "during": range(moment, moment + 3)}
        self.failing = failing
        self.results: list[list[CheckResult]] = []
        self.diagnoses: list[Diagnosis] = []
        state, kept = RunState(), dict[str, bytes]()
        for run in range(RUNS):
            machine = Noisy(line, kind, run, chance, failing=run == failing)
            machine.kept = kept
            found = collect(line["collector"], machine, **line.get("settings", {}))
            names = [line["collector"], OTHER.source]
            outcome = update(state, [*found, OTHER], RunCounts(2, 2), names)
            state = outcome.state
            self.results.append(found)
            self.diagnoses.append(diagnosis([*found, OTHER], outcome, Several()))


def read(path: Path) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(path.read_text())
    return line


@pytest.mark.parametrize("path", LINES, ids=lambda path: str(path.stem))
def test_the_healthy_machine_is_quiet(path: Path) -> None:
    for seed in range(SEEDS):
        line = read(path)
        observed = Observed(line, "healthy", seed)
        for found, result in some(zip(observed.diagnoses, observed.results, strict=True)):
            assert faults(result) == {}
            assert found.object == {"status": "Ok"}, found.why
            assert found.waiting == ()


@pytest.mark.parametrize("path", LINES, ids=lambda path: str(path.stem))
def test_the_broken_machine_is_found(path: Path) -> None:
    for seed in range(SEEDS):
        line = read(path)
        observed = Observed(line, "broken", seed)
        late = line.get("later", 0)
        objects = {str(one.object) for one in observed.diagnoses[IN_EFFECT + late :]}
        assert len(objects) == 1, objects
        for found, result in list(zip(observed.diagnoses, observed.results, strict=True))[
            1 + late :
        ]:
            if "unknown" in line:
                # Neither Ok nor broken, and reported as such.
                assert line["unknown"] in unknown(result)
                assert fine(result) == []
                assert line["unknown"] in {one.source for one in found.unknown}
            elif found is not observed.diagnoses[1 + late]:
                assert faults_of(found) == line["expected"]


def faults_of(found: Diagnosis) -> dict[str, list[str]]:
    """The faults that are in effect, by source."""
    assert found.object is not None, found.why
    reported: dict[str, list[str]] = {}
    for one in found.object["details"]:
        reported.setdefault(one["source"], []).extend(one["details"]["faults"])
    return reported


@pytest.mark.parametrize("name", [name for name in COLLECTORS if name != "filesystems"])
def test_every_collector_is_observed(name: str) -> None:
    assert name in {read(path)["collector"] for path in LINES}, (
        f"tests/data/diagnose/lines: add a broken and a healthy machine for {name}"
    )


def test_the_noise_is_noise() -> None:
    """Programs and files do fail, and no recorded machine is there without a use."""
    line = read(RECORDED / "lines" / "ipmi-transition.json")
    observed = Observed(line, "healthy", 1)
    assert any(isinstance(one, Unknown) for one in observed.results[observed.failing])
    assert (
        recorded("kernel", "healthy").kernel_log()
        != Noisy(
            line | {"base": "kernel/healthy"}, "healthy", 3, Random(1), failing=False
        ).kernel_log()
    )
