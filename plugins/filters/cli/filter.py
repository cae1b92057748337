"""``gnt-steward filter``: one subcommand for each thing to do with job filter rules."""

from __future__ import annotations

import argparse
import importlib
from functools import partial
from typing import Final, Protocol, cast

from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands

#: Name -> description; each is a module of this package.  A new one is added here.
SUBCOMMANDS: Final = {
    "add": "create a rule and print its uuid",
    "replace": "change a rule, which also gives it a new watermark",
    "delete": "delete rules",
    "list": "list the rules in the order in which jobs meet them",
    "info": "print everything about rules",
    "recipe": "print or create the rules of a usual policy, or remove them",
    "lint": "find rules that do not do what they seem to",
    "explain": "explain why a job waits, starts or is canceled",
    "simulate": "simulate a job queue over time under some rules",
    "diff": "list the jobs that two sets of rules treat differently",
}
#: Those that are in another package.
_ELSEWHERE: Final = dict.fromkeys(
    ("lint", "explain", "simulate", "diff"), "ganeti_steward.plugins.filters.analysis.cli"
)


class Subcommand(Protocol):
    """What the module of a subcommand has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit status, raises StewardError."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand each."""
    what = add_subcommands(parser, "WHAT")
    for name, description in SUBCOMMANDS.items():
        add_subcommand(what, name, description, partial(_fill, name))


def _fill(name: str, parser: argparse.ArgumentParser) -> None:
    module = _module(name)
    module.add_arguments(parser)
    parser.set_defaults(act=module.run)


def run(options: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    status: int = options.act(options)
    return status


def _module(name: str) -> Subcommand:
    package = _ELSEWHERE.get(name, __package__)
    return cast("Subcommand", importlib.import_module(f"{package}.{name}"))
