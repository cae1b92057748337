"""``gnt-steward maintenance plan``: the rounds in which nodes can be away, and what moves."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.rolling.hypervisors import NOT_REPORTED, Hypervisors
from ganeti_steward.allocators.rolling.pace import Pace, seconds_of
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.requests import EVAC_ALL, NodeEvacuate
from ganeti_steward.plugins.maintenance.cli import forecasts
from ganeti_steward.plugins.maintenance.cli.planned import hypervisors, reboots, requests
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.roll import Roll, Round
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.hooks.calls import PluginRules
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.maintenance.forecast.rates import Learned
    from ganeti_steward.plugins.maintenance.forecast.steps import Forecast
    from ganeti_steward.plugins.model.incident import Incident
    from ganeti_steward.plugins.model.world import World

#: Fields of the list of rounds -> headings.
FIELDS: Final = {
    "round": "Round",
    "nodes": "Nodes",
    "migrations": "Migrations",
    "failovers": "Failovers",
    "stopped": "Stopped",
    "copied": "GiB",
    "one-copy": "OneCopy",
    "n1": "N+1",
    "minutes": "Minutes",
    "moves": "Moves",
}
_USUAL: Final = (
    *("round", "migrations", "failovers", "stopped", "copied", "one-copy", "n1", "minutes"),
    "nodes",
)
#: Fields of the list of moves -> headings.
MOVES: Final = {
    "round": "Round",
    "instance": "Instance",
    "how": "How",
    "from": "From",
    "to": "To",
    "memory": "MiB",
    "copied": "GiB",
}


def plan_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``plan``."""
    describe(
        one,
        {
            "gnt-steward maintenance plan --all": "the rounds in which all nodes can be rebooted",
            "gnt-steward maintenance plan -G rack1 --at-once 1 --stop": "one node at a time",
            "gnt-steward maintenance plan node3 --moves": "what would leave node3, and where to",
        },
        statuses={EXIT_FAILURE: "a node cannot be away, or the input cannot be used"},
        units="Memory is in MiB, copied disks are in GiB.",
    )
    add_nodes(one)
    add_choice(one)
    add_full(one)
    one.add_argument("--at-once", type=positive, metavar="N", help="at most N nodes in a round")
    text = "no node that stays may fail N+1 because of a round"
    one.add_argument("--n1", action="store_true", help=text)
    text = "instances stay where they went; each round begins with what the one before has left"
    one.add_argument("--no-return", action="store_true", help=text)
    forecasts.add_times(one)
    either = one.add_mutually_exclusive_group()
    text = "each instance that leaves, rather than each round"
    either.add_argument("--moves", action="store_true", help=text)
    text = "each step of the daemon to the end, with its time, rather than each round"
    either.add_argument("--forecast", action="store_true", help=text)
    text = "a shell script that does it without the daemon, rather than a table"
    either.add_argument("-C", "--print-commands", action="store_true", help=text)
    tables.add_field_options(one, FIELDS)
    one.set_defaults(act=_plan)
    add_source_options(one, positional=False)


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Which nodes are meant, see `node_names`."""
    text = "nodes, by name or uuid; or all with a tag, such as rack:a"
    parser.add_argument("node", nargs="*", help=text)
    parser.add_argument("-G", "--group", metavar="GROUP", help="all nodes of this node group")
    parser.add_argument("--all", action="store_true", help="all nodes of the cluster")
    reboots.add_filters(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """What is done with instances that cannot migrate, see `choice`."""
    either = parser.add_mutually_exclusive_group()
    text = "instances that cannot migrate are shut down, and started again afterwards"
    either.add_argument("--stop", action="store_true", help=text)
    text = "they go to another node, stopped while their disks are copied"
    either.add_argument("--move", action="store_true", help=text)


def add_full(parser: argparse.ArgumentParser) -> None:
    """Whether copies leave, too."""
    text = (
        "copies of drbd instances leave as well, so that all have two copies while the node is "
        "away; the instances stay where they went"
    )
    parser.add_argument("--full", action="store_true", help=text)


def positive(text: str) -> int:
    """A whole number of an option that is 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return value


def _plan(options: argparse.Namespace) -> int:
    """Print the rounds; status 1 where a node cannot be away."""
    source = read_source(options)
    names = reboots.chosen(options, node_names(options, source.cluster), time.time())
    if options.print_commands:
        names = list(_without_master(names, source.cluster))
    known = NOT_REPORTED if source.jobs is None else hypervisors.reported_now()
    roll = planned(options, source.cluster, names, options.at_once or 0, known, n1=options.n1)
    notes = (*_notes(roll, source.cluster), *hypervisors.notes(roll, source.cluster, known))
    tables.print_notes((*source.notes, *notes))
    luxid = forecasts.luxid_of(options)
    rates = forecasts.rates_of(options, source.cluster, luxid)
    if options.print_commands:
        from ganeti_steward.plugins.maintenance.forecast.script import script  # with the engine

        at = local_time(time.time_ns())
        sys.stdout.write(script(roll, source.cluster, at, returns=not options.no_return))
    elif options.forecast:
        world = forecasts.world_now(source.cluster, luxid)
        found = forecast_of(options, world, roll, rates)
        forecasts.print_forecast(found, rates, options)
    else:
        _print(options, roll, rates.pace)
    print_impossible(roll)
    return EXIT_FAILURE if roll.impossible else EXIT_OK


def _without_master(names: Sequence[str], cluster: Cluster) -> Iterator[str]:
    """The nodes that a script can empty, which runs on the master."""
    for name in names:
        if cluster.node(name).master:
            tables.print_notes([f"{name} is left out: it is the master"])
        else:
            yield name


def forecast_of(
    options: argparse.Namespace, world: World, roll: Roll, rates: Learned, *more: Incident
) -> Forecast:
    """What the daemon would do if maintenance of the nodes was requested now.

    ``more``: incidents that are recorded already.
    """
    nodes = [world.cluster.node(name) for one in roll.rounds for name in one.nodes]
    new = requests.made(nodes, requests.wanted(options, choice(options)), "", world.now)
    return forecasts.forecast_of(options, world, (*more, *new), rates)


def planned(
    options: argparse.Namespace,
    cluster: Cluster,
    names: Sequence[str],
    at_once: int,
    known: Hypervisors,
    *,
    n1: bool = False,
) -> Roll:
    """The rounds in which these nodes can be away.

    ``at_once``: see `RoundLimits`; ``known``: see `hypervisors.reported_now`.
    """
    # They import the engine, which --help does not need.
    from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
    from ganeti_steward.allocators.rolling.rounds import RoundLimits

    limits, rules = RoundLimits(at_once, n1), _site_rules(configuration(ALLOCATION), names)
    wanted = RollOptions(choice(options), limits, returns=not options.no_return, full=options.full)
    with progress("planning rounds"):
        return plan_roll(cluster, names, wanted, rules, known)


def choice(options: argparse.Namespace) -> str:
    """What is done with instances that cannot migrate."""
    from ganeti_steward.allocators.rolling.fleet import MOVE, REFUSE, STOP

    return STOP if options.stop else MOVE if options.move else REFUSE


def print_impossible(roll: Roll) -> None:
    """Note each node that cannot be away, and what helps."""
    tables.print_notes(
        f"{obstacle.node}: {obstacle.sentence}{_helps(obstacle.helps)}"
        for obstacle in roll.impossible
    )


def node_names(options: argparse.Namespace, cluster: Cluster) -> list[str]:
    """The full names of the nodes that are meant; raises StewardError."""
    # They import the engine.
    from ganeti_steward.allocators.state.names import Names, group_named, meant_nodes

    if sum(map(bool, (options.node, options.group, options.all))) != 1:
        raise StewardError("name nodes, or a node group with -G, or use --all")
    if options.all:
        return [node.name for node in cluster.nodes]
    if options.group:
        uuid = group_named(cluster, options.group).uuid
        return [node.name for node in cluster.nodes if node.group == uuid]
    names = Names(cluster)
    found = names.nodes(meant_nodes(options.node, cluster))
    names.check()
    return sorted(found)


def _site_rules(config: Config, names: Sequence[str]) -> PluginRules:
    """The rules of plugins, those for an evacuation of the nodes."""
    from ganeti_steward.core.hooks.calls import PluginRules
    from ganeti_steward.core.hooks.manager import Plugins

    plugins = Plugins(config, config.plugins.load)
    return PluginRules(plugins, config, NodeEvacuate(tuple(names), EVAC_ALL))


def _helps(text: str) -> str:
    return f"; what helps: {text}" if text else ""


def _notes(roll: Roll, cluster: Cluster) -> Iterator[str]:
    for name, why in roll.left_out:
        yield f"{name} is left out: {why}"
    yield from of_the_master(roll, cluster)
    for number, one in enumerate(roll.rounds, 1):
        for short in one.shortages:
            yield (
                f"round {number}: {short.node} would have to keep {short.needed} MiB free for N+1 "
                f"and has {short.free} MiB"
            )


def of_the_master(roll: Roll, cluster: Cluster) -> Iterator[str]:
    """What has to be done where the master is among the nodes."""
    away = {name for one in roll.rounds for name in one.nodes}
    for node in cluster.nodes:
        if node.master and node.name in away:
            yield (
                f"{node.name} is the master and comes last: first make another node the "
                "master (gnt-cluster master-failover there)"
            )


def _print(options: argparse.Namespace, roll: Roll, pace: Pace) -> None:
    times = [seconds_of(one, pace, returns=not options.no_return) for one in roll.rounds]
    if options.json and options.output is None:
        tables.print_json(as_data(roll, times))
    elif options.moves:
        tables.print_fields(options, MOVES, tuple(MOVES), list(_move_rows(roll)))
    else:
        rows = [
            _row(number, one, seconds)
            for number, (one, seconds) in enumerate(zip(roll.rounds, times, strict=True), 1)
        ]
        tables.print_fields(options, FIELDS, _USUAL, rows)
        if not options.no_headers and options.separator is None and not options.json:
            print(summary(roll))
            text = (
                f"{_minutes(sum(times))} minutes of moves, at {pace.migrated_per_second:g} MiB "
                f"of memory and {pace.copied_per_second:g} MiB of disks a second; the work on "
                "the nodes comes on top"
            )
            width = tables.terminal_width()
            for line in (text, *_at_once(roll)):
                print(tables.wrapped(line, width).rstrip() if width else line)


def _at_once(roll: Roll) -> Iterator[str]:
    """That the daemon has more and smaller rounds, where it does."""
    most = configuration(("maintd",)).section(Maintd).most_nodes
    if any(len(one.nodes) > most for one in roll.rounds):
        yield (
            f"the daemon takes at most {counted(most, 'node')} at once (most-nodes of [maintd]); "
            f"--at-once {most} prints its rounds"
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"


def _row(number: int, one: Round, seconds: float) -> Mapping[str, tables.Value]:
    counts = dict.fromkeys(("migrate", "failover", "shutdown", "move"), 0)
    for leave in one.leaves:
        counts[leave.how] += 1
    return {
        "round": number,
        "nodes": one.nodes,
        "migrations": counts["migrate"],
        "failovers": counts["failover"],
        "stopped": counts["shutdown"] + counts["move"],
        "copied": _gib(_copied(one)),
        "one-copy": len(one.one_copy),
        "n1": [short.node for short in one.shortages],
        "minutes": _minutes(seconds),
        "moves": [
            *(
                f"{leave.instance}:{leave.how}" + (f":{leave.target}" if leave.target else "")
                for leave in one.leaves
            ),
            *(f"{copy.instance}:replace-disks:{copy.target}" for copy in one.copies),
        ],
    }


def _move_rows(roll: Roll) -> Iterator[Mapping[str, tables.Value]]:
    for number, one in enumerate(roll.rounds, 1):
        for leave in one.leaves:
            yield {
                "round": number,
                "instance": leave.instance,
                "how": leave.how,
                "from": leave.source,
                "to": leave.target or "-",
                "memory": leave.memory,
                "copied": _gib(leave.copied),
            }
        for copy in one.copies:
            yield {
                "round": number,
                "instance": copy.instance,
                "how": "replace-disks",
                "from": copy.source,
                "to": copy.target,
                "memory": 0,
                "copied": _gib(copy.copied),
            }


def _gib(mebibytes: int) -> str:
    return f"{mebibytes / 1024:.1f}"


def _copied(one: Round) -> int:
    """MiB of disks that a round copies, as instances leave."""
    leaving = sum(leave.copied for leave in one.leaves)
    return leaving + sum(copy.copied for copy in one.copies)


def summary(roll: Roll) -> str:
    """Rounds, nodes, instances and GiB in one line."""
    leaves = [leave for one in roll.rounds for leave in one.leaves]
    nodes = sum(len(one.nodes) for one in roll.rounds)
    copies = [copy for one in roll.rounds for copy in one.copies]
    copied = sum(map(_copied, roll.rounds))
    also = f"the copies of {len(copies)} go to other nodes, " if copies else ""
    return (
        f"{counted(len(roll.rounds), 'round')} for {counted(nodes, 'node')}, "
        f"moves of {counted(len(leaves), 'instance')}, {also}{_gib(copied)} GiB copied"
    )


def as_data(roll: Roll, times: Sequence[float]) -> dict[str, object]:
    """Everything, for ``--json``; memory and disks in MiB, ``times`` of the rounds in s."""
    return {
        "rounds": [
            {
                "nodes": one.nodes,
                "leaves": [leave._asdict() for leave in one.leaves],
                "copies": [copy._asdict() for copy in one.copies],
                "one_copy": one.one_copy,
                "shortages": [short._asdict() for short in one.shortages],
                "seconds": round(seconds, 1),
            }
            for one, seconds in zip(roll.rounds, times, strict=True)
        ],
        "impossible": [obstacle._asdict() for obstacle in roll.impossible],
        "left_out": dict(roll.left_out),
    }
