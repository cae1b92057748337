"""``steward-iallocator``: the program Ganeti calls (allocation 1).

    steward-iallocator FILE [--option[=value] ...]

noded starts it as root, in ``/``, umask 077, ``LC_ALL=C``, without ``HOME``.  Standard
output carries exactly one JSON object, or nothing when the exit status is not 0.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# The engine's arrays are far too small for several threads, whose start would cost more.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from ganeti_steward.core import log
from ganeti_steward.core.config import Config, config_path, load_config
from ganeti_steward.core.dispatch import answer_message
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, BadInput, StewardError
from ganeti_steward.core.history import Call, record
from ganeti_steward.core.options import parse_options
from ganeti_steward.core.version import VERSION
from ganeti_steward.core.wire import write_answer

USAGE: Final = """\
usage: steward-iallocator FILE [OPTION ...]

Answers one Ganeti iallocator request (JSON, '-' for standard input) on standard output.

  --no-capacity-checks          do not ask whether every node can still be emptied
  --ignore-soft-errors          drop the soft rules of the primary
  --restrict-allocation-to=A,B  only these nodes
  --static-kvm-node-memory=MIB  memory a KVM node's own system takes (default 4096)
  -h, --help                    this text
  -V, --version                 the version

Other options are ignored, and said so in the answer's info.
"""


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of a call."""

    status: int
    output: bytes
    """the answer, or the error text"""


def main() -> int:
    """Run the program; returns its exit status."""
    started = time.time_ns()
    # One short run: collecting garbage would only cost time.
    gc.disable()
    # Whatever a plugin prints must not end up in the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    arguments = sys.argv[1:]
    if "-h" in arguments or "--help" in arguments:
        os.write(answer_to, USAGE.encode())
        return EXIT_OK
    if "-V" in arguments or "--version" in arguments:
        os.write(answer_to, f"steward-iallocator (ganeti-steward) {VERSION}\n".encode())
        return EXIT_OK
    files = [a for a in arguments if a == "-" or not a.startswith("-")]
    options = tuple(a for a in arguments if a != "-" and a.startswith("-"))
    raw = b""
    config = Config()
    try:
        config = load_config(config_path())
        log.set_up(config.log)
        raw = _read(files)
        done = _Done(EXIT_OK, _answer(raw, options, config))
    except StewardError as err:
        done = _Done(EXIT_FAILURE, f"Error: {err}\n".encode(errors="backslashreplace"))
    _write(answer_to if done.status == EXIT_OK else 2, done.output)
    _keep(config, Call(started, os.getpid(), options, done.status), raw, done.output)
    return done.status


def _read(files: Sequence[str]) -> bytes:
    if not files:
        raise BadInput(["This program needs an input file."])
    if len(files) > 1:
        raise BadInput(["Only one argument is accepted (the input file)"])
    if files[0] == "-":
        return sys.stdin.buffer.read()
    try:
        with open(files[0], "rb") as file:
            return file.read()
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or str(err)
        raise BadInput([f"input file {files[0]!r}: {reason}"]) from None


def _answer(raw: bytes, options: Sequence[str], config: Config) -> bytes:
    return write_answer(answer_message(raw, parse_options(options), config))


def _write(descriptor: int, output: bytes) -> None:
    while output:
        output = output[os.write(descriptor, output) :]


def _keep(config: Config, call: Call, raw: bytes, output: bytes) -> None:
    """Log the call and keep it; neither may spoil the answer, which is out already."""
    import logging

    logger = logging.getLogger(__name__)
    text = output.decode(errors="replace").strip()
    milliseconds = (time.time_ns() - call.started) // 1_000_000
    logger.info(
        "request status=%d ms=%d bytes=%d options=%s answer=%s",
        call.status,
        milliseconds,
        len(raw),
        " ".join(call.arguments) or "-",
        text if len(text) <= 2000 else text[:2000] + "...",
    )
    if not raw:
        return
    try:
        record(config.history, call, raw, output)
    except StewardError as err:
        logger.warning("%s", err)


if __name__ == "__main__":
    sys.exit(main())
