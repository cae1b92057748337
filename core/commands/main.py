"""``gnt-steward``: the front door of all commands; each is imported when it is called."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

# Importing makes no garbage: collecting it would only cost time.
gc.disable()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from ganeti_steward.core import log
from ganeti_steward.core.commands import registry
from ganeti_steward.core.commands.manual import Parser, add_subcommand, add_subcommands, fill_all
from ganeti_steward.core.commands.output import checked_output
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_USAGE, StewardError
from ganeti_steward.core.version import VERSION

_VERSION: Final = ("-V", "--version")

_log = logging.getLogger(__name__)


class _LogFileOnDemand(logging.Handler):
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


def parser() -> Parser:
    """The command line with the options of every command of the program."""
    top = _front_door(registry.built_in_commands())
    fill_all(top)
    return top


def _front_door(commands: Mapping[str, registry.Registered]) -> Parser:
    """The command line; a command is imported, and has its options, once it is called."""
    top = Parser(
        prog="gnt-steward",
        description="Placement and repair for Ganeti clusters.",
    )
    top.add_argument(*_VERSION, action="version", version=f"gnt-steward {VERSION}")
    subparsers = add_subcommands(top, "COMMAND", dest="command")
    for name, one in commands.items():
        add_subcommand(subparsers, name, one.command.description, partial(_add_arguments, one))
    return top


def _add_arguments(one: registry.Registered, parser: argparse.ArgumentParser) -> None:
    """Raises PluginError."""
    with registry.named(one):
        registry.load_command(one).add_arguments(parser)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    with checked_output():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    logger = logging.getLogger("ganeti_steward")
    if not logger.handlers:
        logger.addHandler(_LogFileOnDemand())
    given = list(sys.argv[1:] if arguments is None else arguments)
    word = next((word for word in given if not word.startswith("-")), "")
    try:
        status = _run(given, word)
        sys.stdout.flush()
    except StewardError as err:
        if isinstance(err, registry.CommandFailed):
            _log.error("%s", err, exc_info=err.__cause__)
        print(f"gnt-steward {word}: {err}", file=sys.stderr)
        return err.exit_status
    except BrokenPipeError:
        # The reader went away (| head); the output is no longer needed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except KeyboardInterrupt:
        text = "interrupted, ended immediately; jobs that were submitted continue"
        print(f"gnt-steward {word}: {text}", file=sys.stderr)
        return EXIT_USAGE
    finally:
        if arguments is None:
            # The program ends: Python does not search all of it for garbage once more.
            gc.freeze()
    return status


def _run(given: Sequence[str], word: str) -> int:
    commands, faults = (
        registry.commands_for(word) if word or given[:1] not in _ONLY_VERSION else ({}, [])
    )
    for fault in faults:
        print(f"gnt-steward: {fault} (its commands are left out)", file=sys.stderr)
    options = _front_door(commands).parse_args(given)
    chosen = commands[options.command]
    with registry.named(chosen):
        command = registry.load_command(chosen)
        gc.enable()
        return command.run(options)


#: A command line that needs no command.
_ONLY_VERSION: Final = tuple([option] for option in _VERSION)


if __name__ == "__main__":
    sys.exit(main())
