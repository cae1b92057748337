#!/usr/bin/env python3
"""Compare Ganeti Steward's speed and memory with hail's.

Makes clusters, gives each to both programs in turn as Ganeti would, and prints the medians
of the CPU time of whole processes.  See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench_cases import CASES, QUICK_SIZES, Case
from bench_run import Limits, Program, Series, alternate
from bench_start import Start, interpreter, measure_starts, start_table
from bench_table import Row, as_data, progress, result_table

HAIL: Final = "/usr/lib/ganeti/iallocators/hail"
NO_HAIL: Final = "hail is not installed: apt-get install ganeti"
GENERATOR: Final = Path(__file__).with_name("make_cluster.py")
#: Nothing is kept or logged, so that only the answer is measured.
CONFIG: Final = '[history]\nkeep = 0\n[log]\nfile = ""\n'
ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
"""as Ganeti's node daemon gives it"""
#: Prints the environment of Steward; an editable installation starts more slowly than a plain one.
LIBRARIES: Final = """
import platform, numpy, orjson, pluggy, ganeti_steward.core as core
plain = "-packages" in core.__file__
libraries = [f"{m.__name__} {m.__version__}" for m in (numpy, orjson, pluggy)]
how = "plain installation" if plain else "EDITABLE INSTALLATION, starts more slowly"
print(platform.python_version(), *libraries, how, sep=", ")
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """What is compared, and how."""

    steward: Program
    hail: Program | None
    folder: Path
    times: int
    warm_up: bool
    slow: bool

    def rows(self, case: Case, sizes: Sequence[int]) -> Iterator[Row]:
        for nodes in sizes:
            row = self._row(case, nodes)
            print(progress(row), file=sys.stderr, flush=True)
            yield row

    def _row(self, case: Case, nodes: int) -> Row:
        file, text = self.folder / "input.json", self.folder / "input.data"
        make_input(file, [*case.options, "--nodes", str(nodes)], text)
        steward, hail = self._programs(case)
        skipped = case.why_no_hail(nodes, self.slow) if hail else "left out"
        programs = [steward] if skipped or not hail else [hail, steward]
        request_file = str(text if case.tool else file)
        *first, last = alternate(programs, request_file, self.times, self.warm_up)
        other = case.tool.program if case.tool else "hail"
        series = first[0] if first else Series(skipped=skipped)
        return Row(case.name, nodes, count_instances(file), series, last, other)

    def _programs(self, case: Case) -> tuple[Program, Program | None]:
        """Steward's program and the one it is compared with, None where that is not there."""
        if case.tool is None:
            return self.steward, self.hail
        front = str(Path(self.steward.command[0]).with_name("gnt-steward"))
        steward = replace(self.steward, command=[front, *case.tool.command], answers=False)
        path = shutil.which(case.tool.program)
        if self.hail is None or path is None:
            return steward, None
        command = [path, *case.tool.options]
        return steward, replace(self.hail, name=case.tool.program, command=command, answers=False)

    def starts(self) -> list[Start]:
        file = self.folder / "input.json"
        make_input(file, [*CASES[0].options, "--nodes", "10"])
        return measure_starts(self.steward, str(file), self.folder, self.times)


def make_input(file: Path, options: Sequence[str], text: Path | None = None) -> None:
    """Write a cluster and request; the cluster alone in htools' format, too.

    A separate process does it: a child's peak memory as the kernel reports it is never
    below that of the process that started it, so this one has to stay small.
    """
    also = [] if text is None else ["--text", str(text)]
    command = [sys.executable, str(GENERATOR), *options, "--json", str(file), *also]
    subprocess.run(command, check=True)


def count_instances(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(b'"admin_state":' in line for line in lines)


def parser() -> argparse.ArgumentParser:
    names = [case.name for case in CASES]
    result = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    add = result.add_argument
    add("--cases", type=_names, default=names, help=f"of {','.join(names)} (default: all)")
    add("--sizes", type=_sizes, help="numbers of nodes, as 10,100 (default: the case's own)")
    add("--runs", type=_positive, default=5, help="counted runs after one warm-up (5)")
    add("--slow", action="store_true", help="run hail also where it takes minutes")
    add("--quick", action="store_true", help="small clusters, one run, no warm-up: a trial")
    add("--no-hail", action="store_true", help="Steward alone")
    add("--hail", default=HAIL, help=f"hail's path ({HAIL})")
    add("--steward", default="", help="steward-iallocator's path (beside this Python)")
    add("--limit", type=float, default=900, help="seconds one command may take (900)")
    add("--memory", type=_positive, help="MiB one command may take (3/4 of what is available)")
    add("--json", type=Path, help="write all single figures to this file")
    return result


def _names(text: str) -> list[str]:
    known = [case.name for case in CASES]
    names = text.split(",")
    wrong = [name for name in names if name not in known]
    if wrong:
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(wrong)}")
    return names


def _sizes(text: str) -> list[int]:
    return sorted({_positive(part) for part in text.split(",")})


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is expected, found {text!r}")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; 1 when Steward fails to answer or the two disagree."""
    args = parser().parse_args(argv)
    if args.quick:
        args.runs = 1
        args.sizes = args.sizes or QUICK_SIZES
    with tempfile.TemporaryDirectory(prefix="steward-bench-") as folder:
        bench = _set_up(args, Path(folder))
        about = {"machine": machine(), "versions": versions(bench)}
        for name, value in {**about["machine"], **about["versions"]}.items():
            print(f"{name}: {value}")
        print()
        cases = [case for case in CASES if case.name in args.cases]
        rows = [row for case in cases for row in bench.rows(case, args.sizes or case.sizes)]
        starts = bench.starts()
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("\n".join([*result_table(rows, floor), "", *start_table(starts)]))
    print(f"\nload at the end: {_load()}")
    if args.json:
        _write(args.json, about, rows, starts)
    return 1 if any(row.steward.success is None or row.agreed is False for row in rows) else 0


def _set_up(args: argparse.Namespace, folder: Path) -> Bench:
    # Not resolved: a virtual environment's Python is a link out of it.
    steward = args.steward or str(Path(sys.executable).with_name("steward-iallocator"))
    if not os.access(steward, os.X_OK):
        raise SystemExit(f"{steward} is not there: install Ganeti Steward, or give --steward")
    use_hail = not args.no_hail
    if use_hail and not os.access(args.hail, os.X_OK):
        print(NO_HAIL, file=sys.stderr)
        use_hail = False
    config = folder / "steward.toml"
    config.write_text(CONFIG)
    limits = Limits(args.limit, args.memory or _memory("MemAvailable") * 3 // 4)
    environment = {**ENVIRONMENT, "GNT_STEWARD_CONFIG": str(config)}
    return Bench(
        Program("Steward", [os.path.abspath(steward)], environment, limits),
        Program("hail", [args.hail], ENVIRONMENT, limits) if use_hail else None,
        folder,
        args.runs,
        not args.quick,
        args.slow,
    )


def machine() -> dict[str, str]:
    model = platform.machine()
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "processor": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{_memory('MemTotal') / 1024:.0f} GiB",
        "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release()}",
        "load at the start": _load(),
    }


def _memory(key: str) -> int:
    """A figure of the kernel's memory table (MiB)."""
    with open("/proc/meminfo") as lines:
        table = dict(line.split(":", 1) for line in lines)
    return int(table[key].split()[0]) // 1024


def _load() -> str:
    return " ".join(f"{figure:.2f}" for figure in os.getloadavg())


def versions(bench: Bench) -> dict[str, str]:
    found = {"Steward": _first_line([*bench.steward.command, "--version"])}
    python = interpreter(bench.steward.command[0])
    if python:
        found["Steward's Python"] = _first_line([python, "-c", LIBRARIES])
    if bench.hail:
        found["hail"] = _first_line([*bench.hail.command, "--version"])
    return found


def _first_line(command: Sequence[str]) -> str:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def _write(
    file: Path, about: Mapping[str, Any], rows: Sequence[Row], starts: Sequence[Start]
) -> None:
    data = {
        **about,
        "rows": [as_data(row) for row in rows],
        "start": [asdict(start) for start in starts],
    }
    file.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
