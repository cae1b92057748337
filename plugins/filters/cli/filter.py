"""``gnt-steward filter``: one subcommand for each thing to do with job filter rules."""

from __future__ import annotations

import argparse
import importlib
from functools import partial
from typing import Final

from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands

#: Name -> description, and where its options and its action ``act`` are declared: a module, or a
#: function of one in place of ``add_arguments``.
SUBCOMMANDS: Final = {
    "add": ("create a rule and print its uuid", "cli.write:add_options"),
    "replace": ("change a rule, which also gives it a new watermark", "cli.write:replace_options"),
    "delete": ("delete rules", "cli.write:delete_options"),
    "apply": ("replace the cluster's rules with the rules of a file", "cli.apply"),
    "list": ("list the rules in the order in which jobs meet them", "cli.show:list_options"),
    "info": ("print everything about rules", "cli.show:info_options"),
    "recipe": ("print or create the rules of a usual policy, or remove them", "cli.recipe"),
    "lint": ("find rules that do not do what they seem to", "analysis.cli.lint"),
    "explain": ("explain why a job waits, starts or is canceled", "analysis.cli.explain"),
    "simulate": ("simulate a job queue over time under some rules", "analysis.cli.simulate"),
    "diff": ("list the jobs that two sets of rules treat differently", "analysis.cli.diff"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand each; a module is imported when its subcommand is called."""
    what = add_subcommands(parser, "WHAT")
    for name, (description, target) in SUBCOMMANDS.items():
        add_subcommand(what, name, description, partial(_fill, target))


def _fill(target: str, parser: argparse.ArgumentParser) -> None:
    name, _, function = target.partition(":")
    module = importlib.import_module(f"ganeti_steward.plugins.filters.{name}")
    getattr(module, function or "add_arguments")(parser)


def run(options: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    status: int = options.act(options)
    return status
