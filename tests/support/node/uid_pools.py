"""User ids of a pool made for a test."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ganeti_uids
import pytest

GANETI: Final = "/usr/share/ganeti/default/ganeti/uidpool.py"


with_ganeti = pytest.mark.skipif(not os.path.exists(GANETI), reason="needs the package ganeti")


#: Unused ids, other ones in each run.
FIRST: Final = 1_800_000_000 + os.getpid() * 8


def order(seed: int = 0) -> random.Random:
    return random.Random(seed)


def ganeti(locks: str, *given: str) -> Any:
    """What Ganeti's code answers."""
    command = ["/usr/bin/python3", ganeti_uids.__file__, locks, *given]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def process_with(real: int, effective: int, saved: int) -> Iterator[int]:
    """A sleeping process with these ids; its pid."""
    source = (
        f"import os, time; os.setresuid({real}, {effective}, {saved}); "
        "print('ready', flush=True); time.sleep(3600)"
    )
    command = ["/usr/bin/python3", "-IS", "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()
