"""The process that diagnoses and repairs for the agent: it has no threads, so it may fork.

It loads everything first and locks it in memory.  For each request it forks a
supervisor, which has the work done and ends all that it starts.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from ganeti_steward import diagnose
from ganeti_steward.core import log
from ganeti_steward.core.builtins import SELF_DIAGNOSIS
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.this_node import ThisNode, this_node
from ganeti_steward.core.process import descendants
from ganeti_steward.core.process.following import LADDER, packed_ended
from ganeti_steward.core.process.forked import ENDING
from ganeti_steward.core.process.frames import unpacked
from ganeti_steward.core.process.memory_lock import keep_small, lock_memory
from ganeti_steward.core.process.program import run_program
from ganeti_steward.core.process.supervisor import Limits, forked_supervisor, write_result
from ganeti_steward.core.process.trusted_program import opened_program
from ganeti_steward.diagnose.agent.launcher import OUTPUT_LIMIT, READY, Repair, Request
from ganeti_steward.diagnose.config.sections import Agent, Diagnose
from ganeti_steward.diagnose.run.files import Busy
from ganeti_steward.diagnose.run.loading import sources
from ganeti_steward.diagnose.run.reachability import unreached
from ganeti_steward.diagnose.run.report import daemon_parts
from ganeti_steward.diagnose.run.running import diagnose_node
from ganeti_steward.diagnose.sources import whitelist

#: Sub-rooms whose modules the diagnosis needs.
_ROOMS: Final = ("collectors", "config", "model", "run", "sources")

#: What Python and the libraries import only when it is used first.
_LATE: Final = (
    *("encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_8_sig"),
    *("difflib", "importlib.metadata", "linecache", "tokenize", "traceback", "textwrap"),
    *("stringprep", "psutil", "pluggy", "random", "shutil", "shlex", "subprocess"),
    *("tempfile", "multiprocessing"),
    *("ganeti_steward.core.config.parse", "ganeti_steward.core.hooks.manager"),
)

_log = logging.getLogger(__name__)


class KnownAtStart(NamedTuple):
    """What was known at the start, in case that it cannot be read later."""

    config: Config
    node: ThisNode
    find_node: Callable[[], ThisNode]
    """reads it again"""


def main() -> None:
    """Serve requests until the agent closes the socket, or a signal comes.

    Arguments: the socket's descriptor, 1 if the memory is to be locked, else 0, Ganeti's data
    directory, and the node's name or nothing.
    """
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    find_node = partial(this_node, *sys.argv[3:5])
    try:
        config = load_config(config_path(), SELF_DIAGNOSIS)
    except StewardError as err:
        sys.exit(f"gnt-steward agent: the diagnosing process cannot be started: {err}")
    known = KnownAtStart(config, find_node(), find_node)
    _set_up_log(known.config)
    _preload(known.config)
    descendants.become_subreaper()
    if int(sys.argv[2]):
        keep_small()
        fault = lock_memory()
        if fault:
            _log.warning("the diagnosis: %s", fault)
    # Else the children would copy what the collection touches.
    gc.freeze()
    channel.send(READY)
    try:
        _RequestServer(channel, known).run()
    finally:
        descendants.end_children()


def _set_up_log(config: Config) -> None:
    log.set_up(config.log.file, config.log.level)


def _preload(config: Config) -> None:
    for name in _LATE:
        importlib.import_module(name)
    for room in _ROOMS:
        package = importlib.import_module(f"{diagnose.__name__}.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    list(sources(config))
    # What a worker does first.
    importlib.invalidate_caches()


class _Stop(BaseException):
    """A signal has come."""


class _RequestServer:
    """Forks a supervisor for each request, and reaps it."""

    def __init__(self, channel: socket.socket, known: KnownAtStart) -> None:
        self._channel, self._known = channel, known
        self._supervisors, self._stuck = set[int](), set[int]()

    def run(self) -> None:
        """Serve until the other side is closed or a signal comes."""
        woken, wakes = os.pipe()
        for descriptor in (woken, wakes):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in ENDING:
            signal.signal(number, _stop)
        poll = select.poll()
        for descriptor in (woken, self._channel.fileno()):
            poll.register(descriptor, select.POLLIN)
        with suppress(_Stop):
            while True:
                ready = [descriptor for descriptor, _ in poll.poll()]
                with suppress(BlockingIOError):
                    os.read(woken, 4096)
                self._reap()
                if self._channel.fileno() in ready and not self._serve():
                    return

    def _serve(self) -> bool:
        """Begin what the next request wants; False when there will be no more."""
        try:
            raw, descriptors, _, _ = socket.recv_fds(self._channel, len(READY), 2)
        except ConnectionError:
            return False
        if not raw:
            return False
        writing, requested = descriptors
        try:
            with open(requested, "rb") as file:
                request, given = unpacked(Request, file.read())
            repair = request.repair
            work = partial(_repaired, repair, given) if repair else partial(_diagnosed, self._known)
            worker, limits = partial(write_result, work), Limits(request.limit)
            self._supervisors.add(forked_supervisor(worker, limits, writing, ()))
        except OSError as err:
            # The caller sees that nothing comes.
            _log.warning("the diagnosis: nothing can be started: %s", err.strerror)
        finally:
            os.close(writing)
        return True

    def _reap(self) -> None:
        """Reap what has ended, and end the orphans of a supervisor that was killed."""
        with suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._supervisors.discard(pid)
                self._stuck.discard(pid)
        spare = frozenset(self._supervisors | self._stuck)
        if descendants.children() - spare:
            self._stuck |= {process.pid for process in descendants.end_descendants(spare=spare)}


def _stop(*_: object) -> None:
    raise _Stop


def _diagnosed(known: KnownAtStart) -> bytes:
    """The report; empty while another run is under way.  Raises StewardError."""
    try:
        config = load_config(config_path(), SELF_DIAGNOSIS)
    except StewardError as err:
        _log.warning("the diagnosis goes on with the configuration of its start: %s", err)
        config = known.config
    else:
        _set_up_log(config)
    try:
        run = diagnose_node(
            config.section(Diagnose),
            sources(config),
            node=partial(_node, known),
            daemon=partial(daemon_parts, config.section(Agent).key_file),
            unreached=partial(unreached, config.section(Agent).port),
        )
    except Busy:
        return b""
    return canonical(run.report) + b"\n"


def _node(known: KnownAtStart) -> ThisNode:
    """This node; as it was known where Ganeti's files can no longer be read."""
    now, before = known.find_node(), known.node
    lost = (before.uuid and not now.uuid) or (before.address and not now.address)
    return before if lost else now


def _repaired(repair: Repair, given: bytes) -> bytes:
    """How a repair command has ended; raises Forbidden, OSError."""
    if repair.program:
        with opened_program(repair.program[0]) as executable:
            return packed_ended(
                run_program(
                    repair.program,
                    repair.seconds,
                    output_limit=OUTPUT_LIMIT,
                    executable=executable,
                    ladder=LADDER,
                )
            )
    ended = whitelist.run(
        repair.command,
        repair.directory,
        repair.seconds,
        output_limit=OUTPUT_LIMIT,
        ladder=LADDER,
        given=given,
        environment=repair.environment,
    )
    return packed_ended(ended)
