"""What a small request costs before anything is placed: the parts of the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench_run import Program, Series
from bench_table import cpu_seconds, layout

#: What a program has to say here to have succeeded.
ANSWER: Final = "print('{\"success\": true}')"
KEEPING: Final = '[history]\ndirectory = "{folder}/history"\n[log]\nfile = "{folder}/log"\n'
#: Each with all before it, as they share imports.
IMPORTS: Final = {
    "pluggy": "",
    "orjson": "",
    "numpy": "",
    "tomllib": " (only where there is a configuration file)",
}


@dataclass(frozen=True, slots=True)
class Start:
    """One row: what was run, and how it went."""

    what: str
    series: Series


def measure_starts(steward: Program, file: str, folder: Path, times: int) -> list[Start]:
    """Run Steward on a small input, and parts of what it starts with, in turn."""
    programs = _parts(steward)
    programs.append(replace(steward, name="Steward, 10 nodes", command=[*steward.command, file]))
    programs.append(_keeping(programs[-1], folder))
    starts = [Start(program.name, Series()) for program in programs]
    for _ in range(times):
        for program, start in zip(programs, starts, strict=True):
            start.series.runs.append(program.run())
    return starts


def _parts(steward: Program) -> list[Program]:
    python = interpreter(steward.command[0])
    if not python:
        return []
    # One thread, as Steward itself has it.
    environment = {**steward.environment, "OPENBLAS_NUM_THREADS": "1"}
    programs = [Program("Python alone", [python, "-c", ANSWER], environment, steward.limits)]
    for at, (module, note) in enumerate(IMPORTS.items(), start=1):
        code = f"import {', '.join(list(IMPORTS)[:at])}; {ANSWER}"
        name = f"and importing {module}{note}"
        programs.append(Program(name, [python, "-c", code], environment, steward.limits))
    return programs


def interpreter(script: str) -> str:
    """The Python that runs a console script; empty if its first line does not name it."""
    with open(script, "rb") as file:
        first = file.readline().decode(errors="replace").strip()
    path = first.removeprefix("#!")
    return path if first.startswith("#!") and Path(path).name.startswith("python") else ""


def _keeping(steward: Program, folder: Path) -> Program:
    config = folder / "keeping.toml"
    config.write_text(KEEPING.format(folder=folder))
    environment = {**steward.environment, "GNT_STEWARD_CONFIG": str(config)}
    name = f"{steward.name}, keeping request and answer, with a log"
    return replace(steward, name=name, environment=environment)


def start_table(starts: Sequence[Start]) -> list[str]:
    rows = [(start.what, cpu_seconds(start.series)) for start in starts]
    return layout([("start", "CPU s"), *rows])
