"""``gnt-steward maintenance``: healthy nodes are taken out for a while without anybody noticing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.cluster_options import (
    add_reason_option,
    add_source_options,
    read_source,
)
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.commands.tables import (
    Value,
    add_field_options,
    print_fields,
    print_json,
    print_lines,
    print_notes,
)
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.requests import EVAC_ALL, NodeEvacuate
from ganeti_steward.plugins.maintenance.cli.cluster import add_submit_option, live_client
from ganeti_steward.plugins.maintenance.cli.incident import incident_lines
from ganeti_steward.plugins.maintenance.cli.requests import FIELDS as REQUEST_FIELDS
from ganeti_steward.plugins.maintenance.cli.requests import (
    USUAL,
    in_the_way,
    named,
    requests_of,
    row_of,
    set_word,
    write_requests,
)
from ganeti_steward.plugins.model.incident import Maintenance

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.roll import Roll, Round
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.hooks.calls import PluginRules
    from ganeti_steward.core.model.cluster import Cluster

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
    "moves": "Moves",
}
_USUAL: Final = ("round", "migrations", "failovers", "stopped", "copied", "one-copy", "n1", "nodes")
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    what = add_subcommands(parser, "WHAT")
    for name, (text, fill) in _SUBCOMMANDS.items():
        add_subcommand(what, name, text, fill)


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    status: int = options.act(options)
    return status


# -- plan


def _plan_options(one: argparse.ArgumentParser) -> None:
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
    _add_nodes(one)
    _add_choice(one)
    one.add_argument("--at-once", type=_positive, metavar="N", help="at most N nodes in a round")
    text = "no node that stays may fail N+1 because of a round"
    one.add_argument("--n1", action="store_true", help=text)
    text = "instances stay where they went; each round begins with what the one before has left"
    one.add_argument("--no-return", action="store_true", help=text)
    text = "each instance that leaves, rather than each round"
    one.add_argument("--moves", action="store_true", help=text)
    add_field_options(one, FIELDS)
    one.set_defaults(act=_plan)
    add_source_options(one, positional=False)


def _add_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", nargs="*", help="nodes, by name or uuid")
    parser.add_argument("-G", "--group", metavar="GROUP", help="all nodes of this node group")
    parser.add_argument("--all", action="store_true", help="all nodes of the cluster")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    either = parser.add_mutually_exclusive_group()
    text = "instances that cannot migrate are shut down, and started again afterwards"
    either.add_argument("--stop", action="store_true", help=text)
    text = "they go to another node, stopped while their disks are copied"
    either.add_argument("--move", action="store_true", help=text)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it has to be 1 or more")
    return value


def _plan(options: argparse.Namespace) -> int:
    """Print the rounds; status 1 where a node cannot be away."""
    from ganeti_steward.allocators.rolling.fleet import MOVE, REFUSE, STOP
    from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
    from ganeti_steward.allocators.rolling.rounds import Limits

    # They import the engine, which --help does not need.

    config = configuration(ALLOCATION)
    source = read_source(options)
    names = node_names(options, source.cluster)
    choice = STOP if options.stop else MOVE if options.move else REFUSE
    limits = Limits(options.at_once or 0, options.n1)
    wanted = RollOptions(choice, limits, returns=not options.no_return)
    with progress("planning rounds"):
        roll = plan_roll(source.cluster, names, wanted, _site_rules(config, names))
    print_notes((*source.notes, *_notes(roll, source.cluster)))
    _print(options, roll)
    print_notes(f"{one.node}: {one.sentence}{_helps(one.helps)}" for one in roll.impossible)
    return EXIT_FAILURE if roll.impossible else EXIT_OK


def node_names(options: argparse.Namespace, cluster: Cluster) -> list[str]:
    """The full names of the nodes that are meant; raises StewardError."""
    from ganeti_steward.allocators.state.names import Names, group_named  # imports the engine

    if sum(map(bool, (options.node, options.group, options.all))) != 1:
        raise StewardError("name nodes, or a node group with -G, or use --all")
    if options.all:
        return [one.name for one in cluster.nodes]
    if options.group:
        uuid = group_named(cluster, options.group).uuid
        return [one.name for one in cluster.nodes if one.group == uuid]
    names = Names(cluster)
    found = names.nodes(options.node)
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
    away = {name for one in roll.rounds for name in one.nodes}
    for node in cluster.nodes:
        if node.master and node.name in away:
            yield (
                f"{node.name} is the master and comes last: before it is away another node has to "
                "be the master (gnt-cluster master-failover there)"
            )
    for number, one in enumerate(roll.rounds, 1):
        for short in one.shortages:
            yield (
                f"round {number}: {short.node} would have to keep {short.needed} MiB free for N+1 "
                f"and has {short.free} MiB"
            )


def _print(options: argparse.Namespace, roll: Roll) -> None:
    if options.json and options.output is None:
        print_json(as_data(roll))
    elif options.moves:
        print_fields(options, MOVES, tuple(MOVES), list(_move_rows(roll)))
    else:
        rows = [_row(number, one) for number, one in enumerate(roll.rounds, 1)]
        print_fields(options, FIELDS, _USUAL, rows)
        if not options.no_headers and options.separator is None and not options.json:
            print(_summary(roll))


def _row(number: int, one: Round) -> Mapping[str, Value]:
    counts = dict.fromkeys(("migrate", "failover", "shutdown", "move"), 0)
    for leave in one.leaves:
        counts[leave.how] += 1
    return {
        "round": number,
        "nodes": one.nodes,
        "migrations": counts["migrate"],
        "failovers": counts["failover"],
        "stopped": counts["shutdown"] + counts["move"],
        "copied": _gib(sum(leave.copied for leave in one.leaves)),
        "one-copy": len(one.one_copy),
        "n1": [short.node for short in one.shortages],
        "moves": [
            f"{leave.instance}:{leave.how}" + (f":{leave.target}" if leave.target else "")
            for leave in one.leaves
        ],
    }


def _move_rows(roll: Roll) -> Iterator[Mapping[str, Value]]:
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


def _gib(mebibytes: int) -> str:
    return f"{mebibytes / 1024:.1f}"


def _summary(roll: Roll) -> str:
    leaves = [leave for one in roll.rounds for leave in one.leaves]
    nodes = sum(len(one.nodes) for one in roll.rounds)
    copied = sum(leave.copied for leave in leaves)
    return (
        f"{counted(len(roll.rounds), 'round')} for {counted(nodes, 'node')}, "
        f"{counted(len(leaves), 'instance')} leave, {_gib(copied)} GiB copied"
    )


def as_data(roll: Roll) -> dict[str, object]:
    """Everything, for ``--json``; memory and disks in MiB."""
    return {
        "rounds": [
            {
                "nodes": one.nodes,
                "leaves": [leave._asdict() for leave in one.leaves],
                "one_copy": one.one_copy,
                "shortages": [short._asdict() for short in one.shortages],
            }
            for one in roll.rounds
        ],
        "impossible": [one._asdict() for one in roll.impossible],
        "left_out": dict(roll.left_out),
    }


# -- requests


def _start_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintenance start node3": "empty node3 for a reboot",
            "gnt-steward maintenance start node3 --stop --dry-run": "print what would happen",
        },
        statuses={EXIT_FAILURE: "a node cannot be away; nothing is requested then"},
    )
    one.add_argument("node", nargs="+", help="nodes, by name or uuid")
    one.set_defaults(group=None, all=False)
    _finish_request(one)


def _roll_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintenance roll --all": "one node after the other, but for the master",
            "gnt-steward maintenance roll -G rack1 --dry-run": "print what would happen",
        },
        statuses={EXIT_FAILURE: "a node cannot be away; nothing is requested then"},
    )
    _add_nodes(one)
    _finish_request(one)


def _finish_request(one: argparse.ArgumentParser) -> None:
    _add_choice(one)
    text = "instances stay where they went"
    one.add_argument("--no-return", action="store_true", help=text)
    text = "print the moves that would be made, and request nothing"
    one.add_argument("--dry-run", action="store_true", help=text)
    add_reason_option(one)
    one.set_defaults(act=_request)
    # The cluster's key is on the master, where luxid is.
    add_source_options(one, positional=False, files=False, rapi=False)


def _request(options: argparse.Namespace) -> int:
    """Write a record for each node; status 1, and none, where a node cannot be away."""
    from ganeti_steward.allocators.rolling.fleet import MOVE, REFUSE, STOP
    from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
    from ganeti_steward.allocators.rolling.rounds import Limits

    cluster, known = read_source(options).cluster, requests_of(live_client(options))
    names = node_names(options, cluster)
    if options.all or options.group:
        names = list(_without(cluster, names))
    if faults := in_the_way(cluster, names, known):
        raise StewardError("; ".join(faults))
    choice = STOP if options.stop else MOVE if options.move else REFUSE
    wanted = RollOptions(choice, Limits(at_once=1), returns=not options.no_return)
    rules = _site_rules(configuration(ALLOCATION), names)
    with progress("planning rounds"):
        roll = plan_roll(cluster, names, wanted, rules)
    print_notes(f"{one.node}: {one.sentence}{_helps(one.helps)}" for one in roll.impossible)
    if roll.impossible:
        return EXIT_FAILURE
    if options.dry_run:
        print(_summary(roll))
        print_lines(
            f"{leave.instance}: {leave.how} {leave.source} {leave.target}".rstrip()
            for one in roll.rounds
            for leave in one.leaves
        )
        return EXIT_OK
    nodes = [cluster.node(name) for one in roll.rounds for name in one.nodes]
    request = Maintenance(choice, not options.no_return)
    for incident in write_requests(options, nodes, request, options.reason or ""):
        print(f"Requested maintenance of {incident.node_name}: incident {incident.uuid}.")
    return EXIT_OK


def _without(cluster: Cluster, names: Sequence[str]) -> Iterator[str]:
    """The nodes that a roll takes, with a note for each other one."""
    for name in names:
        node = cluster.node(name)
        why = "it is offline" if node.offline else "it is the master" if node.master else ""
        if why:
            print_notes([f"{name} is left out: {why}"])
        else:
            yield name


def _list_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintenance list": "how far the maintenance of each node is",
            "gnt-steward maintenance list -o node,state --no-headers": "for scripts",
        },
        units="Times are local, with the offset from UTC.",
    )
    add_field_options(one, REQUEST_FIELDS)
    _finish_live(one, _list)


def _finish_live(one: argparse.ArgumentParser, act: Callable[[argparse.Namespace], int]) -> None:
    one.set_defaults(act=act)
    add_source_options(one, positional=False, files=False)


def _list(options: argparse.Namespace) -> int:
    cluster = read_source(options).cluster
    rows = [row_of(one, cluster) for one in requests_of(live_client(options))]
    print_fields(options, REQUEST_FIELDS, USUAL, rows)
    return EXIT_OK


def _named_options(one: argparse.ArgumentParser) -> None:
    one.add_argument("node", help="a node, or the uuid of its maintenance")


def _show_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintenance show node3": "all that is recorded of it"})
    _named_options(one)
    _finish_live(one, _show)


def _show(options: argparse.Namespace) -> int:
    cluster = read_source(options).cluster
    one = named(requests_of(live_client(options)), cluster, options.node)
    row = row_of(one, cluster)
    print_lines(f"{REQUEST_FIELDS[name]}: {_text(row[name])}" for name in REQUEST_FIELDS)
    print_lines(incident_lines(one.incident, one.incident.original, one.signature))
    return EXIT_OK


def _text(value: Value) -> str:
    if isinstance(value, str | int):
        return str(value)
    return ", ".join(value) or "-"


def _done_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintenance done node3": "node3 was rebooted: take it back"})
    _word_options(one, "done")


def _cancel_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintenance cancel node3": "do nothing more about node3"})
    _word_options(one, "cancel")


def _word_options(one: argparse.ArgumentParser, word: str) -> None:
    _named_options(one)
    add_submit_option(one)
    add_reason_option(one)
    _finish_live(one, partial(_word, word))


def _word(word: str, options: argparse.Namespace) -> int:
    client = live_client(options)
    one = named(requests_of(client), read_source(options).cluster, options.node)
    return set_word(client, one, word, submit=options.submit)


#: Name -> description, and what declares the options.
_SUBCOMMANDS: Final[Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "plan": ("the rounds in which nodes can be away, and what moves", _plan_options),
    "start": ("empty nodes for maintenance, one after the other", _start_options),
    "roll": ("the same for all nodes, or a node group", _roll_options),
    "list": ("each maintenance that is recorded, and how far it is", _list_options),
    "show": ("one maintenance with all that is recorded", _show_options),
    "done": ("the work on a node is over: take it back", _done_options),
    "cancel": ("do nothing more about a node", _cancel_options),
}
