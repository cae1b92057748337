"""One demo from its first file to the end of its last process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final, NoReturn

from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.service.http_server import bind
from ganeti_steward.plugins.simulation.demo.confd import ADDRESS, answering
from ganeti_steward.plugins.simulation.demo.files import Files, free_port, made_cluster
from ganeti_steward.plugins.simulation.demo.luxid import DemoLuxid
from ganeti_steward.plugins.simulation.demo.narrator import Narrator
from ganeti_steward.plugins.simulation.demo.nodes import DemoNodes
from ganeti_steward.plugins.simulation.demo.processes import Processes
from ganeti_steward.plugins.simulation.demo.roll_story import RollStory
from ganeti_steward.plugins.simulation.demo.story import FaultStory, Story
from ganeti_steward.plugins.simulation.luxid import served

_NODES: Final = 4
#: At speed 1: seconds for reading, and how much faster jobs are than in Ganeti.
_PAUSE: Final = 4.0
_JOBS: Final = 6.0

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupted(BaseException):
    """A signal has come."""


def run_demo(port: int, speed: float, *, roll: bool, keep: bool) -> int:
    """Play it; the exit status.

    ``port``: TCP port of the status page, 0 for a free one; ``speed``: 1 takes a minute or two;
    ``roll``: all nodes are rebooted; ``keep``: go on until a signal comes.  Raises StewardError
    when it cannot be played.
    """
    ended = False
    try:
        with ExitStack() as stack:
            # Entered before and left after everything that has to be removed.
            stack.enter_context(_handlers_restored())
            try:
                with _interruptible():
                    story = _begin(stack, port, speed, RollStory if roll else FaultStory)
                    story.play()
                    ended = True
                    if keep:
                        print("The cluster and its page stay until Ctrl-C.", flush=True)
                        story.keep()
            except _Interrupted:
                print("interrupted; everything is ended and removed", file=sys.stderr, flush=True)
    except OSError as err:
        raise StewardError(f"the demo cannot be played: {reason_of(err)}") from None
    return EXIT_OK if ended else EXIT_FAILURE


def _begin(stack: ExitStack, port: int, speed: float, kind: type[Story]) -> Story:
    """Start everything; ``stack`` ends it, the processes first."""
    port = port or free_port()
    bind(ADDRESS, port).close()
    world = made_cluster(_NODES)
    directory = TemporaryDirectory(prefix="gnt-steward-demo-", ignore_cleanup_errors=True)
    files = Files(stack.enter_context(directory), world)
    luxid = DemoLuxid(world, _JOBS * speed)
    stack.enter_context(served(str(files.socket), luxid.answer))
    confd_port = stack.enter_context(answering(files.key, lambda: files.master.name))
    processes = Processes()
    stack.callback(processes.end)
    narrator = Narrator(luxid, str(files.audit))
    narrator.say("demo", f"starting the agents of {_NODES} nodes, and the maintenance daemon")
    nodes = DemoNodes(files, luxid, processes, confd_port, port)
    story = kind(nodes, luxid, narrator, _PAUSE / speed)
    story.begin(port)
    return story


@contextmanager
def _handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _interruptible() -> Iterator[None]:
    """A signal raises _Interrupted; afterwards signals are ignored, so that all is removed."""
    try:
        for number in _ENDING:
            signal.signal(number, _interrupt)
        yield
    finally:
        _ignore_signals()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _ignore_signals()
    raise _Interrupted


def _ignore_signals() -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
