"""Whatever others write: it ends in a value or in an error of ours, and soon."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final

import pytest
from asserting import some
from hostile_readers import Readers
from mutation import damaged_json
from thorough import often, seeds

from ganeti_steward.core.errors import StewardError

#: Inputs of all tests of this file together.
INPUTS: Final = often(20_000, 1_000_000)
#: The seed of the first one; 0 but in tier 1.
FIRST: Final = seeds(1, 1_000_000)[0]
#: Tests, so that a failure does not hide the others, and several workers can share the work.
PARTS: Final = 20
#: Seconds of processor time from which on an input counts as one that hangs.
HANG: Final = 8.0
#: Failures that are shown of each test.
_SHOWN: Final = 5


class Hang(BaseException):
    """An input that takes too long; no handler of ours catches it."""


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


@contextmanager
def limited() -> Iterator[None]:
    """Within `HANG` seconds of this process, whatever other processes do."""
    before = signal.signal(signal.SIGPROF, _hang)
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture
def readers(tmp_path: Path) -> Readers:
    return Readers(tmp_path)


def fault_of(readers: Readers, seed: int) -> str:
    """What is wrong with how one input is read; empty: nothing.  The seed alone decides."""
    rng = Random(seed)
    names = list(readers.all)
    (name,) = rng.choices(names, cum_weights=list(accumulate(w for w, _ in readers.all.values())))
    began = time.process_time()
    try:
        with limited():
            readers.all[name][1](rng)
    except StewardError:
        pass
    except (Exception, Hang) as err:
        return f"seed {seed}, {name}: {type(err).__name__}: {str(err)[:200]}"
    took = time.process_time() - began
    return f"seed {seed}, {name}: {took:.1f} s" if took > HANG else ""


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_traceback_and_no_hang(readers: Readers, part: int) -> None:
    """Repeat one with ``fault_of(readers, SEED)``."""
    each = INPUTS // PARTS
    numbers = range(FIRST + part * each, FIRST + (part + 1) * each)
    print(f"seeds {numbers.start} to {numbers.stop - 1}")
    faults = [fault for seed in numbers if (fault := fault_of(readers, seed))]
    assert not faults[:_SHOWN], f"{len(faults)} of {each} inputs"


def test_the_seed_alone_decides() -> None:
    """What one input is damaged with is not changed by the damage to another."""

    def inputs() -> list[bytes]:
        return [damaged_json(Random(seed), {"a": [1, {"b": 2}], "c": {}}) for seed in range(3000)]

    assert inputs() == inputs()


def test_the_good_inputs_are_read(readers: Readers) -> None:
    """Each reader returns a value for some inputs, so that the damage is what others refuse."""
    for name, (_, read) in some(readers.all.items()):
        for seed in range(100):
            try:
                read(Random(seed))
                break
            except StewardError:
                pass
        else:
            pytest.fail(f"{name}: no input was good")
