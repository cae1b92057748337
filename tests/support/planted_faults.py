"""``contrib/planted-faults``: plants faults in copies of the product; the simulator must find them.

Each is a file of `PLANTED`: what it breaks, and exact texts of the product with others in their
place.  Histories are played with that copy until an invariant is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
#: The folder of the faults.
PLANTED: Final = ROOT / "tests" / "faults" / "planted"
#: Histories that are played for one fault before it counts as survived.
HISTORIES: Final = 500
#: Seconds of a processor that one history takes at most: a faulty product may never end it.
_TIME_LIMIT: Final = 60
_ROOMS: Final = ("core", "allocators", "plugins", "diagnose")


class Change(NamedTuple):
    """One change of the product."""

    file: str
    """relative to the checkout"""
    old: str
    """occurs once in it"""
    new: str


class PlantedFault(NamedTuple):
    """A fault that can be planted."""

    name: str
    breaks: str
    """what it breaks, one sentence"""
    changes: tuple[Change, ...]
    missing: str = ""
    """what the simulator lacks to find it; empty: nothing that is known"""


class Result(NamedTuple):
    """What the histories with one fault have shown."""

    fault: PlantedFault
    rounds: int
    histories: int
    broken: str
    """the invariant that it broke; empty: it survived"""
    seed: str
    """of the history in which it did"""
    text: str
    """what the invariant says"""


class CannotPlant(Exception):
    """The product does not have the text that a fault changes, or has it more than once."""


def planted_faults() -> list[PlantedFault]:
    """All faults, by name."""
    return [_read(file) for file in sorted(PLANTED.glob("*.toml"))]


def _read(file: Path) -> PlantedFault:
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    changes = tuple(Change(**one) for one in content["change"])
    return PlantedFault(file.stem, content["breaks"], changes, content.get("missing", ""))


def changed(fault: PlantedFault) -> dict[str, str]:
    """File -> its content with the fault; raises CannotPlant."""
    found: dict[str, str] = {}
    for file, old, new in fault.changes:
        text = found.get(file) or (ROOT / file).read_text(encoding="utf-8")
        if (times := text.count(old)) != 1:
            raise CannotPlant(f"{fault.name}: {file} has the text {times} times, not once: {old!r}")
        found[file] = text.replace(old, new)
    return found


def plant(fault: PlantedFault, folder: Path) -> None:
    """Make the package with the fault in an empty folder, mostly of links; raises CannotPlant."""
    package = folder / "ganeti_steward"
    package.mkdir()
    for room in _ROOMS:
        (package / room).symlink_to(ROOT / room)
    for file, text in changed(fault).items():
        for parent in reversed(Path(file).parents[:-1]):
            _unlink(package / parent, ROOT / parent)
        (package / file).unlink()
        (package / file).write_text(text, encoding="utf-8")


def _unlink(folder: Path, original: Path) -> None:
    """Replace the link to a folder by a folder of links to what is in it."""
    if not folder.is_symlink():
        return
    folder.unlink()
    folder.mkdir()
    for one in original.iterdir():
        if one.name != "__pycache__":
            (folder / one.name).symlink_to(one)


def found_by(fault: PlantedFault, first: int = 1, histories: int = HISTORIES) -> Result:
    """Play histories with a fault, from the seed ``first`` on, until one breaks an invariant."""
    with tempfile.TemporaryDirectory() as name:
        plant(fault, Path(name))
        output, ended = _run(name, str(first), str(histories))
    played = [json.loads(line) for line in output.splitlines()]
    rounds = sum(one["rounds"] for one in played)
    last = played[-1] if played else {"seed": "", "broken": "", "text": ""}
    if ended and not last["broken"]:
        seed = str(first + len(played))
        kind = "hangs" if ended == -signal.SIGPROF else "crash"
        return Result(fault, rounds, len(played) + 1, kind, seed, "the simulation did not end")
    return Result(fault, rounds, len(played), last["broken"], last["seed"], last["text"])


def _run(folder: str, *arguments: str) -> tuple[str, int]:
    """What a process with the package of a folder prints, and its exit status."""
    paths = os.pathsep.join((folder, str(ROOT / "tests" / "support")))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-m", "planted_faults", "--play", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode


def _play(first: int, histories: int) -> int:
    """In a process of its own: play histories, and print a line for each."""
    from fault_world.history import only_play, play

    only_play()
    for seed in map(str, range(first, first + histories)):
        signal.setitimer(signal.ITIMER_PROF, _TIME_LIMIT)
        played = play(seed)
        broken, text = (played.broken.name, str(played.broken)) if played.broken else ("", "")
        row = {"seed": seed, "rounds": played.rounds, "broken": broken, "text": text}
        print(json.dumps(row), flush=True)
        if played.broken:
            return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: every fault was found."""
    options = _parser().parse_args(arguments)
    if options.play:
        return _play(*options.play)
    known = {one.name: one for one in planted_faults()}
    if unknown := sorted({*options.names} - {*known}):
        sys.exit(f"planted-faults: there is no {', '.join(unknown)}")
    chosen = [known[name] for name in options.names or known]
    play = partial(found_by, first=options.seed, histories=options.histories)
    results = []
    with ThreadPoolExecutor(options.processes) as pool:
        for result in pool.map(play, chosen):
            print(_shown(result), flush=True)
            results.append(result)
    print(totals(results))
    return 0 if all(one.broken for one in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="planted-faults", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", help="faults, by the names of their files (all)")
    add("--seed", type=int, default=1, help="of the first history (1)")
    add("--histories", type=int, default=HISTORIES, help=f"for each fault, at most ({HISTORIES})")
    add("--processes", type=int, default=os.cpu_count() or 1, help="how many at the same time")
    add("--play", type=int, nargs=2, help=argparse.SUPPRESS)
    return parser


def _shown(result: Result) -> str:
    done = f"{result.rounds} rounds, {result.histories} histories"
    if not result.broken:
        text = result.fault.missing or result.fault.breaks
        return f"{result.fault.name}: survived {done}: {text}"
    return f"{result.fault.name}: found after {done}, seed {result.seed}: {result.text}"


def totals(results: Iterable[Result]) -> str:
    """How many were found, and after how many rounds."""
    every = list(results)
    found = [one.rounds for one in every if one.broken]
    median = f", after {statistics.median(found):.0f} rounds (median)" if found else ""
    return f"{len(found)} of {len(every)} planted faults were found{median}"


if __name__ == "__main__":
    sys.exit(main())
