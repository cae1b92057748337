"""``gnt-steward``: the front door of all commands; each is imported when it is called."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from ganeti_steward.core import log
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands
from ganeti_steward.core.commands.registry import (
    CommandFailed,
    Registered,
    built_in_commands,
    commands_for,
    load_command,
    named,
)
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_USAGE, StewardError
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.version import VERSION

_VERSION: Final = ("-V", "--version")

_log = logging.getLogger(__name__)


class _LogFile(logging.Handler):
    """Opens the configured log when the first record comes; most commands log nothing.

    Without it Python would print records, tracebacks of plugins included, on the terminal.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Set up the log, which replaces this handler, and pass the record on."""
        root = logging.getLogger("ganeti_steward")
        root.removeHandler(self)
        try:
            config = load_config(config_path(), ("log",))
            log.set_up(config.log.file, config.log.level)
        except StewardError:
            # The command itself reports what is wrong with the configuration.
            root.addHandler(logging.NullHandler())
        root.handle(record)


#: Letters that hbal has and a command here may not, for its error; see the table of letters.
_INSTEAD: Final = {
    "-t": "-t is the disk template in all commands; --text-data reads htools' text format",
    "-O": "-O names an offline node in all commands; --option passes an option to the allocators",
    "-p": "-p is a port in all commands; --print-nodes prints the nodes",
}


class _Parser(argparse.ArgumentParser):
    """Says of a letter that means something else elsewhere which option is meant."""

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit with status 2."""
        unknown = message.removeprefix("unrecognized arguments: ").split(None, 1)[0][:2]
        hint = _INSTEAD.get(unknown, "") if message.startswith("unrecognized") else ""
        super().error(f"{message} ({hint})" if hint else message)


def parser(
    command: str | None = None, commands: Mapping[str, Registered] | None = None
) -> argparse.ArgumentParser:
    """The command line; only ``command`` (or every command) has its options filled in.

    ``commands``: those there are; default: the program's.  Raises PluginError.
    """
    top = _Parser(
        prog="gnt-steward",
        description="Placement and repair for Ganeti clusters.",
    )
    top.add_argument(*_VERSION, action="version", version=f"gnt-steward {VERSION}")
    subparsers = add_subcommands(top, "COMMAND", dest="command")
    for name, one in (built_in_commands() if commands is None else commands).items():
        sub = add_subcommand(subparsers, name, one.command.description)
        if command in (None, name):
            with named(one):
                load_command(one).add_arguments(sub)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    _use_log_file()
    given = list(sys.argv[1:] if arguments is None else arguments)
    word = next((word for word in given if not word.startswith("-")), "")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal cannot show is no reason to stop.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(given, word)
        sys.stdout.flush()
    except StewardError as err:
        if isinstance(err, CommandFailed):
            _log.error("%s", err, exc_info=err.__cause__)
        text = "\n".join(map(printable, str(err).split("\n")))
        print(f"gnt-steward {word}: {text}", file=sys.stderr)
        return EXIT_FAILURE
    except BrokenPipeError:
        # The reader went away (| head); the output is no longer needed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except KeyboardInterrupt:
        text = "interrupted, ended immediately; jobs that were submitted continue"
        print(f"gnt-steward {word}: {text}", file=sys.stderr)
        return EXIT_USAGE
    return status


def _use_log_file() -> None:
    logger = logging.getLogger("ganeti_steward")
    if not logger.handlers:
        logger.addHandler(_LogFile())


def _run(given: Sequence[str], word: str) -> int:
    commands, faults = commands_for(word) if word or given[:1] not in _ONLY_VERSION else ({}, [])
    for fault in faults:
        print(f"gnt-steward: {fault} (its commands are left out)", file=sys.stderr)
    options = parser(word, commands).parse_args(given)
    chosen = commands[options.command]
    with named(chosen):
        return load_command(chosen).run(options)


#: A command line that needs no command.
_ONLY_VERSION: Final = tuple([option] for option in _VERSION)


if __name__ == "__main__":
    sys.exit(main())
