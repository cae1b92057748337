"""``gnt-steward agent``: the node's server of reports and repairs, in the foreground."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from ganeti_steward.core.builtins import SELF_DIAGNOSIS
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import ENVIRONMENT as CONFIG
from ganeti_steward.core.config.values import Config, Http
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.this_node import (
    DATA,
    ThisNode,
    own_address,
    own_names,
    this_node,
)
from ganeti_steward.core.log import set_up_service, to_standard_error
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.core.node_agent.protocol import HOOK, CommandEnd, RepairRequest
from ganeti_steward.core.process.descendants import end_children
from ganeti_steward.core.process.memory_lock import keep_small, lock_memory
from ganeti_steward.core.process.program import ENVIRONMENT
from ganeti_steward.core.service.console_log import ConsoleLog
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.core.service.http_server import Limits, Server, bind
from ganeti_steward.core.service.sd_notify import notify
from ganeti_steward.diagnose.agent.http import AgentApplication, preload
from ganeti_steward.diagnose.agent.launcher import Diagnosing, Launcher, Request, executor
from ganeti_steward.diagnose.agent.memory import Memory
from ganeti_steward.diagnose.agent.nonces import Nonces
from ganeti_steward.diagnose.agent.penalties import Penalties
from ganeti_steward.diagnose.agent.repairs import REQUEST_LIMIT, Repairs
from ganeti_steward.diagnose.agent.reports import Reports
from ganeti_steward.diagnose.agent.takeover import PROGRAM, Takeover
from ganeti_steward.diagnose.config.sections import Agent, Diagnose
from ganeti_steward.diagnose.run.files import REPORT
from ganeti_steward.diagnose.sources.whitelist import HOOK_DIRECTORY, REPAIR_DIRECTORY

#: What callers may take; below the largest body the application refuses by itself.
LIMITS: Final = Limits(body=2 * REQUEST_LIMIT)

#: Signals that end it.
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: The directory, in that of the diagnosis, of what was done with repair commands.
COMMANDS: Final = "commands"

#: Seconds a disk may take to write that down; a command waits so long before it is started.
_WRITE_TIMEOUT: Final = 10.0

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it listens, and how."""
    describe(
        parser,
        {
            "gnt-steward agent": "serve as configured, until a signal ends it",
            "gnt-steward agent -b 127.0.0.1 -p 1817 --no-mlock -d": "for a try",
        },
        statuses={
            EXIT_OK: "a signal has ended it",
            EXIT_FAILURE: "it cannot begin: the configuration, the key, the address",
        },
    )
    add = parser.add_argument
    add("-b", "--bind", metavar="ADDRESS", help="listen at this IP address, not as configured")
    add("-p", "--port", type=int, help="listen at this TCP port, not as configured")
    add("--no-mlock", action="store_true", help="do not lock the memory, whatever is configured")
    add("-d", "--debug", action="store_true", help="log everything")
    add(
        "--repair-directory",
        metavar="DIRECTORY",
        default=REPAIR_DIRECTORY,
        help=f"where the repair commands are; default: {REPAIR_DIRECTORY}",
    )
    add(
        "--hook-directory",
        metavar="DIRECTORY",
        default=HOOK_DIRECTORY,
        help=f"where the commands of the master are; default: {HOOK_DIRECTORY}",
    )
    add(
        "--node-name",
        metavar="NAME",
        default="",
        help="the name of this node in the cluster; default: the host's name",
    )
    add(
        "--data",
        metavar="DIRECTORY",
        default=DATA,
        help=f"Ganeti's data directory, which names the nodes; default: {DATA}",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until a signal ends it; raises StewardError when it cannot begin."""
    config = load_config(config_path(), SELF_DIAGNOSIS)
    if options.debug:
        config = config._replace(log=config.log._replace(level="debug"))
    set_up_service(config.log.file, config.log.level, ConsoleLog)
    for warning in config.warnings:
        _log.warning("%s", warning)
    settings = config.section(Agent)
    find_node = partial(this_node, options.data, options.node_name)
    address = options.bind or settings.address or own_address(find_node())
    listener = bind(address, settings.port if options.port is None else options.port)
    keep_small()
    _check_key(settings)
    is_this_node = _recogniser(find_node)
    path = f"{config.section(Diagnose).directory}/{REPORT}"
    own = {"master_failover": True} if settings.master_failover else {}
    reports = Reports(path, settings.max_age, time.time_ns, is_this_node, DiskTimeout(), own)
    locks = settings.lock_memory and not options.no_mlock
    launcher = Launcher(
        {**ENVIRONMENT, CONFIG: config_path()},
        lock_memory=locks,
        data=os.path.abspath(options.data),
        node_name=options.node_name,
    )
    ending = threading.Event()
    limit = settings.repair_time_limit
    directories = {
        LIVE_REPAIR: os.path.abspath(options.repair_directory),
        HOOK: os.path.abspath(options.hook_directory),
    }
    execute = executor(launcher, directories, limit, ending.is_set)
    fails_over = executor(launcher, {}, limit, ending.is_set, PROGRAM)
    takeover = Takeover(options.data, find_node, time.time, fails_over)
    application = _application(config, reports, is_this_node, execute, takeover)
    names = (*own_names(options.data, options.node_name), *config.section(Http).names)
    server = Server(application, listener, LIMITS, names, application.reads_body)
    preload(application)
    _note_start(listener.getsockname(), settings)
    if locks and (warning := lock_memory()):
        _log.warning("%s", warning)
    _end_by_signals(server, ending)
    with _diagnosing(settings, launcher, reports):
        notify("READY=1")
        server.run()
    server.finish()
    _log.info("agent ends")
    return EXIT_OK


def _application(
    config: Config,
    reports: Reports,
    is_this_node: Callable[[str], bool],
    execute: Callable[[RepairRequest], CommandEnd],
    takeover: Takeover,
) -> AgentApplication:
    settings = config.section(Agent)
    key = KeyFile(settings.key_file, DiskTimeout())
    if not (settings.repair or settings.master_failover):
        return AgentApplication(reports, key, None)
    directory = f"{config.section(Diagnose).directory}/{COMMANDS}"
    repairs = Repairs(
        key,
        is_this_node,
        execute,
        Nonces(lambda: secrets.token_urlsafe(32), time.monotonic, settings.nonce_life),
        Penalties(time.monotonic),
        Memory(directory, time.time, settings.repair_again_after, DiskTimeout(_WRITE_TIMEOUT)),
        runs_commands=settings.repair,
        takeover=takeover if settings.master_failover else None,
    )
    return AgentApplication(reports, key, repairs)


def _recogniser(find_node: Callable[[], ThisNode]) -> Callable[[str], bool]:
    """Whether a name or uuid is this node's.

    What it is called can change while the agent runs; what it was called stays known, for the
    files that name it may lie on a disk that is dead by now.
    """
    node = find_node()

    def is_this_node(text: str) -> bool:
        nonlocal node
        if node.is_called(text):
            return True
        now = find_node()
        if now.is_called(text):
            node = now
        return now.is_called(text)

    return is_this_node


def _note_start(place: tuple[Any, ...], settings: Agent) -> None:
    host, port = str(place[0]), place[1]
    repairs = "run" if settings.repair else "not run"
    _log.info("agent begins address=%s port=%s repair commands are %s", host, port, repairs)
    if settings.master_failover:
        _log.info("the maintenance daemon may make this node the master (agent.master-failover)")
    if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        _log.warning("the agent listens at every address of this node")


def _check_key(settings: Agent) -> None:
    """Report a key that cannot be used now; it is read again with each request that needs it."""
    try:
        KeyFile(settings.key_file, DiskTimeout()).key()
    except NoKey as err:
        also = " and no repair command is run" if settings.repair else ""
        text = f"no report is signed{also} as long as there is no key: {err}"
        _log.warning("%s", text)
        if not sys.stderr.isatty():
            # It is there already, as a line of the log.
            to_standard_error(f"gnt-steward agent: {text}")


def _end_by_signals(server: Server, ending: threading.Event) -> None:
    def end(*_: object) -> None:
        ending.set()
        server.stop()

    for number in _ENDING:
        signal.signal(number, end)


@contextmanager
def _diagnosing(settings: Agent, launcher: Launcher, reports: Reports) -> Iterator[None]:
    """Have the self-diagnosis run meanwhile; nothing that was started is left behind."""
    # A run that takes longer than a report is valid is of no use.
    diagnose = partial(launcher.call, Request(settings.max_age))
    diagnosing = Diagnosing(diagnose, reports.take, settings.interval)
    try:
        if settings.interval or settings.repair or settings.master_failover:
            try:
                launcher.start()
            except OSError as err:
                reason = reason_of(err)
                raise StewardError(f"the diagnosing process cannot be started: {reason}") from None
        if settings.interval:
            diagnosing.start()
        yield
    finally:
        diagnosing.stop()
        end_children()
        launcher.close()
