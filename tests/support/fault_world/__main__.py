"""``contrib/simulate-faults``: plays histories of a seed, or scenario files."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from fault_world.history import Played, only_play, play
from fault_world.scenarios.command import compare, events_help
from fault_world.shrink import shrunk

_DESCRIPTION: Final = """\
Plays histories of a simulated cluster in which everything goes wrong, or scenario files.
docs/how-to/write-a-scenario.md says how a scenario is written.
"""
#: Histories that a process plays before it reports.
_PORTION = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: no invariant was broken."""
    options = _parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if options.files:
        return compare(options.files, accept=options.accept)
    if options.seed is not None and options.rounds is None:
        return _one(options.seed, options.keep)
    return _many(int(options.seed or 1), options.rounds or 10_000, options.processes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simulate-faults",
        description=_DESCRIPTION,
        epilog=f"events of scenario files (at SECONDS EVENT ...):\n{events_help()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="scenario files to be played and compared")
    add("--accept", action="store_true", help="write the narratives that differ into their files")
    add("--seed", help="the history, or with --rounds the first one (a number)")
    add("--rounds", type=int, help="play histories until the daemons have run so many rounds")
    add("--keep", help="only these faults of the history, by number: 3,17,20")
    add("--processes", type=int, default=os.cpu_count() or 1, help="how many at the same time")
    return parser


def _one(seed: str, keep: str | None) -> int:
    played = play(seed)
    if keep is not None:
        kept = [played.faults[int(number)] for number in keep.split(",") if number]
        played = play(seed, kept)
    print("\n".join(played.narrative))
    print(f"seed {seed}: {played.rounds} rounds, {len(played.faults)} faults")
    return 1 if played.broken else 0


def _many(first: int, rounds: int, processes: int) -> int:
    begun, done, histories, broken = time.monotonic(), 0, 0, list[Played]()
    with ProcessPoolExecutor(processes, initializer=only_play) as pool:
        for played in _results(pool, first, processes):
            histories, done = histories + 1, done + played.rounds
            if played.broken:
                broken.append(played)
            if done >= rounds:
                break
        pool.shutdown(cancel_futures=True)
    for played in broken:
        _explain(played)
    seconds = time.monotonic() - begun
    print(
        f"{histories} histories from seed {first} on, {done} rounds in {seconds:.0f} s: "
        f"{len(broken)} broken"
    )
    return 1 if broken else 0


def _results(pool: ProcessPoolExecutor, first: int, processes: int) -> Iterator[Played]:
    waiting = [pool.submit(_portion, first + at * _PORTION) for at in range(2 * processes)]
    following = first + 2 * processes * _PORTION
    while True:
        yield from waiting.pop(0).result()
        waiting.append(pool.submit(_portion, following))
        following += _PORTION


def _portion(first: int) -> list[Played]:
    found = [play(str(first + at)) for at in range(_PORTION)]
    return [one if one.broken else one._replace(narrative=()) for one in found]


def _explain(played: Played) -> None:
    """The seed, its shortened history, and the command that plays it again."""
    smallest = shrunk(played, partial(play, played.seed))
    numbers = [str(played.faults.index(one)) for one in smallest.faults]
    print(f"seed {played.seed}: {smallest.broken}")
    print(f"  {len(numbers)} of {len(played.faults)} faults are enough:")
    for fault in smallest.faults:
        print(f"  {fault.at:9.1f} {' '.join(str(one) for one in fault[1:] if one)}")
    print(f"  contrib/simulate-faults --seed {played.seed} --keep {','.join(numbers)}")


if __name__ == "__main__":
    sys.exit(main())
