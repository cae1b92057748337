"""``gnt-steward``: the front door of all commands; each is imported when it is called."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from ganeti_steward.core import builtins
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_USAGE, StewardError
from ganeti_steward.core.version import VERSION

#: Command -> what it does.
COMMANDS: Final = {
    "agent": "serve this node's report and run repair commands, in the foreground",
    "aggregate": "show who is in which aggregate and who may go where; add and remove members",
    "balance": "show, or make, the moves that even out each node group",
    "capacity": "count how many more instances fit, and where",
    "check": "show what is wrong with a cluster and whether balancing would mend it",
    "check-config": "check the configuration file and the plugins it names",
    "diagnose": "tell what is wrong with this node, as one object",
    "explain": "show why a request is (or was) answered the way it is",
    "group-evacuate": "move the instances of a node group to other groups",
    "install-iallocator": "make Ganeti find the allocator under the name steward",
    "place": "show where a new instance would go, and why",
    "plugins": "list the plugins, loaded and installed",
    "replay": "answer a kept request again and compare",
    "reserve": "reserve nodes of the free pool, release them, list reservations",
}


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """The command line; only ``command`` (or every command) has its options filled in."""
    top = argparse.ArgumentParser(
        prog="gnt-steward",
        description="Placement and repair for Ganeti clusters.",
        epilog="gnt-steward COMMAND --help tells the options of a command.",
    )
    top.add_argument("-V", "--version", action="version", version=f"gnt-steward {VERSION}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if command in (None, name):
            _module(name).add_arguments(sub)
    return top


class _Command(Protocol):
    """What the module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


def _module(command: str) -> _Command:
    module: object = builtins.command_module(command)
    return cast("_Command", module)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wanted = next((word for word in given if not word.startswith("-")), "")
    options = parser(wanted).parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal cannot show is no reason to stop.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _module(options.command).run(options)
        sys.stdout.flush()
    except StewardError as err:
        print(f"gnt-steward {options.command}: {err}", file=sys.stderr)
        return EXIT_FAILURE
    except BrokenPipeError:
        # The reader went away (| head); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print(f"gnt-steward {options.command}: interrupted", file=sys.stderr)
        return EXIT_USAGE
    return status


if __name__ == "__main__":
    sys.exit(main())
