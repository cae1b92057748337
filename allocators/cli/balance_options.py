"""hbal's options, which ``balance`` and ``check`` have in common, and asking for a plan."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ganeti_steward.allocators.cli.allocator_options import add_passed_options
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.model.answer import Refusal
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.explanation import GroupBalance
from ganeti_steward.core.model.names import Names, with_offline
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.model.requests import Balance


class Plan(NamedTuple):
    """What the configured allocators answer to a balance request."""

    cluster: Cluster
    """the one that was asked about: with the nodes of ``-O`` offline"""
    groups: tuple[GroupBalance, ...]
    """empty when the allocator that answered explains nothing"""
    jobs: list[Job]
    info: str


def add_balance_options(parser: argparse.ArgumentParser) -> None:
    """hbal's options that shape a plan."""
    add = parser.add_argument
    add(
        "-l",
        "--max-length",
        type=_whole,
        metavar="N",
        help="at most so many moves in all; default: no limit",
    )
    add(
        "-O",
        "--offline",
        action="append",
        default=[],
        metavar="NODE",
        help="take this node as offline; may be given several times",
    )
    add(
        "-G",
        "--group",
        action="append",
        default=[],
        metavar="GROUP",
        help="only this node group, by name or uuid; may be given several times",
    )
    add(
        "-E",
        "--evac-mode",
        action="store_true",
        help="move only instances that have an unusable node",
    )
    add("--no-disk-moves", action="store_true", help="copy no disks: migrations only")
    add("--no-instance-moves", action="store_true", help="leave primaries: replace disks only")
    add("--restricted-migration", action="store_true", help="migrate only off drained nodes")
    add("--select-instances", action="append", metavar="NAME,...", help="move only these instances")
    add(
        "--exclude-instances",
        action="append",
        default=[],
        metavar="NAME,...",
        help="do not move these instances",
    )
    add(
        "-g",
        "--min-gain",
        type=_number(0),
        default=Balance().min_gain,
        metavar="DELTA",
        help="what a step must lower the score by; default: %(default)s",
    )
    add(
        "--avoid-disk-moves",
        type=_number(1),
        default=Balance().disk_factor,
        metavar="FACTOR",
        help="how many times more a step that copies disks must gain; default: %(default)s",
    )
    add_passed_options(parser, short=False, example="--mond")


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"a number is expected, found {text!r}")
    return int(text)


def _number(least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(
                f"a number that is not below {least:g} is expected, found {text!r}"
            )
        return value

    return number


def ask(
    options: argparse.Namespace,
    cluster: Cluster,
    config: Config,
    *,
    max_moves: int | None,
    more: Sequence[str] = (),
) -> Plan:
    """The plan for what the options want; raises StewardError where there is none.

    Every name the cluster does not know is told in the same error.  ``more``: what is to be
    passed to the allocators besides ``--option``.
    """
    arguments = parse_options([*options.option, *more])
    names = Names(cluster)
    offline = names.nodes(options.offline)
    selected = options.select_instances
    request = Balance(
        max_moves=max_moves,
        groups=names.groups(options.group) if options.group else None,
        evacuate=options.evac_mode,
        disk_moves=not options.no_disk_moves,
        instance_moves=not options.no_instance_moves,
        restricted_migration=options.restricted_migration,
        select=None if selected is None else names.instances(selected),
        exclude=names.instances(options.exclude_instances),
        min_gain=options.min_gain,
        disk_factor=options.avoid_disk_moves,
    )
    names.check()
    cluster = with_offline(cluster, offline)
    outcome = dispatch(request, cluster, config, arguments, explain=True)
    if isinstance(outcome, Refusal):
        raise StewardError(outcome.info)
    result: Any = outcome.result
    told = tuple(one for one in outcome.explanations if isinstance(one, GroupBalance))
    return Plan(cluster, told, result[2], outcome.info)
