"""``gnt-steward maintenance``: healthy nodes are taken out for a while without anybody noticing."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.rolling.hypervisors import NOT_REPORTED
from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import (
    add_reason_option,
    add_source_options,
    read_source,
)
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.plugins.maintenance.cli import forecasts
from ganeti_steward.plugins.maintenance.cli.cluster import (
    add_submit_option,
    live_client,
)
from ganeti_steward.plugins.maintenance.cli.planned import (
    hypervisors,
    maintenance_list,
    maintenance_pause,
    maintenance_plan,
    maintenance_run,
    maintenance_shutdown,
    maintenance_wait,
    reboots,
    requests,
)
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.forecast.deadline import read_deadline
from ganeti_steward.plugins.maintenance.pause import TAG_FORM
from ganeti_steward.plugins.model.works import BY_ADMIN, POWER, is_work
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.hypervisors import Hypervisors
    from ganeti_steward.allocators.rolling.roll import Roll
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.model.cluster import Cluster, Node
    from ganeti_steward.plugins.maintenance.forecast.rates import Learned
    from ganeti_steward.plugins.maintenance.forecast.steps import Forecast
    from ganeti_steward.plugins.model.incident import Incident


#: Why a roll leaves out the master.
_MASTER: Final = "it is the master (--with-master requests its maintenance as well)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    what = add_subcommands(parser, "WHAT")
    for name, (text, fill) in _SUBCOMMANDS.items():
        add_subcommand(what, name, text, fill)


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    status: int = options.act(options)
    return status


def _start_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintenance start node3": "empty node3 for a reboot",
            "gnt-steward maintenance start node3 --stop --dry-run": "print what would happen",
        },
        statuses={EXIT_FAILURE: "a node cannot be away; nothing is requested then"},
    )
    text = "nodes, by name or uuid; or all with a tag, such as rack:a"
    one.add_argument("node", nargs="+", help=text)
    one.set_defaults(group=None, all=False, roll=False)
    _finish_request(one)


def _roll_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintenance roll --all": "one node after the other, but for the master",
            "gnt-steward maintenance roll --all --with-master": "the master too, after the others",
            "gnt-steward maintenance roll -G rack1 --dry-run": "print what would happen",
            "gnt-steward maintenance roll needsreboot": "all nodes with this tag",
            "gnt-steward maintenance roll --all --reboot-required": "those that need it",
        },
        statuses={EXIT_FAILURE: "a node cannot be away; nothing is requested then"},
    )
    maintenance_plan.add_nodes(one)
    one.set_defaults(roll=True)
    _finish_request(one)


def _run_options(one: argparse.ArgumentParser) -> None:
    maintenance_run.run_options(one)
    _add_request(one)
    one.set_defaults(act=_run)


def _finish_request(one: argparse.ArgumentParser) -> None:
    _add_request(one)
    text = (
        "also the master: it comes last and waits until another node is the master: the agent of "
        "a candidate with master-failover = true makes it so, or you do (gnt-cluster "
        "master-failover there)"
    )
    one.add_argument("--with-master", action="store_true", help=text)
    text = "at most N nodes are away at the same time, and at most as many as most-nodes"
    one.add_argument("--at-once", type=maintenance_plan.positive, metavar="N", help=text)
    text = (
        "when all nodes must be back, such as 06:00, 'Sat 06:00' or '2026-12-05 06:00': the "
        "fewest nodes are away at once that are in time; nothing is requested if that is too "
        "late, and no node begins later that would not be back in time"
    )
    one.add_argument("--by", type=_deadline, metavar="TIME", help=text)
    one.set_defaults(act=_request)


def _add_request(one: argparse.ArgumentParser) -> None:
    """What is requested of each node."""
    maintenance_plan.add_choice(one)
    maintenance_plan.add_full(one)
    text = "instances stay where they went"
    one.add_argument("--no-return", action="store_true", help=text)
    text = (
        "what reboots the node when nothing runs on it: none (an admin, the default), "
        "command:NAME (a repair command of its agent), or power (Ganeti's out-of-band program)"
    )
    one.add_argument("--work", type=_work, default=BY_ADMIN, metavar="WORK", help=text)
    text = "a repair command of the node's agent, run before anything else; it must succeed"
    one.add_argument("--before", type=_command, metavar="NAME", help=text)
    text = "a repair command to run after the work, before the node is taken back; it must succeed"
    one.add_argument("--after", type=_command, metavar="NAME", help=text)
    text = "a command in /etc/ganeti/steward-hooks of the master, run before all that; must succeed"
    one.add_argument("--master-before", type=_command, metavar="NAME", help=text)
    text = "one to run there at the end, when the node is back and its instances are; must succeed"
    one.add_argument("--master-after", type=_command, metavar="NAME", help=text)
    text = "the tag that each of these nodes loses at the end of its maintenance"
    one.add_argument("--remove-tag", type=_tag, metavar="TAG", help=text)
    text = "print each step that the daemon would do, with its time, and request nothing"
    one.add_argument("--dry-run", action="store_true", help=text)
    forecasts.add_times(one)
    add_reason_option(one)
    # The cluster's key is on the master, where luxid is.
    add_source_options(one, positional=False, files=False, rapi=False)


def _work(text: str) -> str:
    if not is_work(text):
        raise argparse.ArgumentTypeError(f"{text!a} is not one of none, power, command:NAME")
    return text


def _deadline(text: str) -> int:
    """ns since the epoch."""
    at = read_deadline(text, datetime.fromtimestamp(time.time()))
    if at is None:
        raise argparse.ArgumentTypeError(
            f"{text!a} is not a future time such as 06:00, Sat 06:00 or 2026-12-05 06:00"
        )
    return int(at.timestamp()) * 10**9


def _command(text: str) -> str:
    if not is_name(text):
        raise argparse.ArgumentTypeError(f"{text!a} is not a command name")
    return text


def _tag(text: str) -> str:
    if not TAG_FORM.fullmatch(text) or text.startswith("maintd:"):
        raise argparse.ArgumentTypeError(f"{text!a} is not a tag that people set on nodes")
    return text


def _request(options: argparse.Namespace) -> int:
    """Write a record for each node; status 1, and none, where a node cannot be away."""
    client, cluster = live_client(options), read_source(options).cluster
    tag = options.remove_tag
    if options.node == [tag] and not any(tag in node.tags for node in cluster.nodes):
        print(f"No node has the tag {tag}.")
        return EXIT_OK
    names = maintenance_plan.node_names(options, cluster)
    known = requests.requests_of(client)
    if options.roll:
        names = reboots.chosen(options, names, time.time())
        names = list(_without(options, cluster, names, requests.active_nodes(known)))
        if not names:
            print("No node is left.")
            return EXIT_OK
    faults = requests.in_the_way(cluster, names, known, with_master=options.with_master)
    _refuse(options, client, names, faults)
    reported = hypervisors.reported_now()
    roll = maintenance_plan.planned(options, cluster, names, options.at_once or 1, reported)
    maintenance_plan.print_impossible(roll)
    if roll.impossible:
        names = [obstacle.node for obstacle in roll.impossible]
        raise StewardError(f"nothing is requested, because of {', '.join(names)}")
    tables.print_notes(maintenance_plan.of_the_master(roll, cluster))
    tables.print_notes(hypervisors.notes(roll, cluster, reported))
    expected: Mapping[str, int] = {}
    if options.dry_run or options.by:
        active = [one.incident for one in known if one.incident.active]
        roll, found, rates = _forecast(options, cluster, names, active, reported)
        tables.print_notes(_of_others(active, names))
        if options.dry_run:
            forecasts.print_forecast(found, rates, options)
            return EXIT_OK
        expected = found.of_nodes(names).seconds
    _write(options, [cluster.node(name) for one in roll.rounds for name in one.nodes], expected)
    return EXIT_OK


def _of_others(active: Sequence[Incident], names: Sequence[str]) -> Iterator[str]:
    """Maintenance that a forecast has as well; ``names``: the nodes that it is made for."""
    if others := sorted({one.node_name for one in active} - {*names}):
        yield f"the forecast includes maintenance that is requested already: {', '.join(others)}"


def _write(options: argparse.Namespace, nodes: Sequence[Node], expected: Mapping[str, int]) -> None:
    """Request the maintenance of these nodes; ``expected``: see `requests.made`."""
    request = requests.wanted(options, maintenance_plan.choice(options))
    request, reason = request._replace(deadline=options.by or 0), options.reason or ""
    for incident in requests.write_requests(options, nodes, request, reason, expected):
        print(f"Requested maintenance of {incident.node_name}: incident {incident.uuid}.")


def _refuse(
    options: argparse.Namespace, client: Luxi | Rapi, names: Sequence[str], faults: list[str]
) -> None:
    """Raise StewardError where anything is in the way; ``faults``: what is known already."""
    if options.work == POWER:
        faults += requests.without_power(client, names)
    if faults:
        raise StewardError("; ".join(faults))


def _run(options: argparse.Namespace) -> int:
    """Carry out the maintenance of one node, or print the forecast."""
    if options.dry_run:
        return _request(options)
    return maintenance_run.run_maintenance(options, lambda: _node_to_run(options))


def _node_to_run(options: argparse.Namespace) -> Node | None:
    """The only node that is meant; None where it cannot be away.  Raises StewardError."""
    client, cluster = live_client(options), read_source(options).cluster
    names = maintenance_plan.node_names(options, cluster)
    if len(names) > 1:
        raise StewardError(f"{options.node[0]!a} means {len(names)} nodes; name one of them")
    node = cluster.node(names[0])
    if maintenance_run.active(options, node):
        return node
    _refuse(options, client, names, requests.in_the_way(cluster, names, (), with_master=False))
    roll = maintenance_plan.planned(options, cluster, names, 1, NOT_REPORTED)
    maintenance_plan.print_impossible(roll)
    return None if roll.impossible else node


def _forecast(
    options: argparse.Namespace,
    cluster: Cluster,
    names: Sequence[str],
    active: list[Incident],
    reported: Hypervisors,
) -> tuple[Roll, Forecast, Learned]:
    """What the daemon would do; with ``--by`` by as few nodes at once as are in time.

    Raises StewardError where that is impossible, with the earliest end.
    """
    luxid = forecasts.luxid_of(options)
    rates, world = forecasts.rates_of(options, cluster, luxid), forecasts.world_now(cluster, luxid)
    most = configuration(("maintd",)).section(Maintd).most_nodes
    ends = {}
    for at_once in range(1, most + 1) if options.by and not options.at_once else (options.at_once,):
        options.at_once = at_once
        roll = maintenance_plan.planned(options, cluster, names, at_once or 1, reported)
        found = maintenance_plan.forecast_of(options, world, roll, rates, *active)
        if not options.by:
            return roll, found, rates
        ends[at_once] = own = found.of_nodes(names)
        if own.end and own.end <= options.by:
            text = f"with {at_once} at once all nodes are back at {local_time(own.end)}"
            tables.print_notes([text])
            return roll, found, rates
    raise StewardError(_too_late(options, ends, len(names)))


def _too_late(options: argparse.Namespace, ends: Mapping[int, Forecast], nodes: int) -> str:
    """Why not all nodes are back in time."""
    late = f"not all of {counted(nodes, 'node')} can be back by {local_time(options.by)}"
    in_time = {number: found.end for number, found in ends.items() if found.end}
    if not in_time:
        (*_, last) = ends.values()
        endless = next(one for one in last.outcomes if not one.at)
        return f"{late}: {endless.node} does not end: {endless.reason}"
    best = min(in_time, key=lambda number: in_time[number])
    return (
        f"{late}: the earliest end is {local_time(in_time[best])}, with {best} at once; more at "
        "once: most-nodes of [maintd]; --dry-run without --by prints the steps"
    )


def _without(
    options: argparse.Namespace, cluster: Cluster, names: Sequence[str], active: Collection[str]
) -> Iterator[str]:
    """The nodes that a roll takes, with a note for each other one; those named are not left out.

    ``active``: uuids of the nodes with an active maintenance.
    """
    from ganeti_steward.allocators.state.names import named  # imports the engine

    words = ",".join(options.node).split(",")
    given = {name for word in words for name in named(cluster.nodes, word)}
    for name in names:
        node = cluster.node(name)
        master = node.master and not options.with_master
        why = "it has an active maintenance" if node.uuid in active else ""
        why = "it is offline" if node.offline else _MASTER if master else why
        if why and name not in given:
            tables.print_notes([f"{name} is left out: {why}"])
        else:
            yield name


def _finish_live(one: argparse.ArgumentParser, act: Callable[[argparse.Namespace], int]) -> None:
    one.set_defaults(act=act)
    add_source_options(one, positional=False, files=False)


def _named_options(one: argparse.ArgumentParser) -> None:
    one.add_argument("node", help="a node, or the uuid of its maintenance")


def _done_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintenance done node3": "node3 was rebooted: take it back"})
    _word_options(one, "done")


def _cancel_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintenance cancel node3": "cancel the maintenance of node3"})
    _word_options(one, "cancel")


def _word_options(one: argparse.ArgumentParser, word: str) -> None:
    _named_options(one)
    add_submit_option(one)
    add_reason_option(one)
    _finish_live(one, partial(_word, word))


def _word(word: str, options: argparse.Namespace) -> int:
    client, cluster = live_client(options), read_source(options).cluster
    known = requests.requests_of(client)
    debts = requests.to_undo(known, cluster, options.node)
    if word == "done" and debts:
        incident = requests.undo(options, debts)
        print(f"Requested the return of {debts.node.name}: incident {incident.uuid}.")
        return EXIT_OK
    one = requests.named(known, cluster, options.node)
    status = requests.set_word(client, one, word, submit=options.submit)
    if word == "cancel" and status == EXIT_OK:
        tables.print_lines(requests.left_by(one, cluster))
    return status


#: Name -> description, and what declares the options.
_SUBCOMMANDS: Final[Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "plan": (
        "print the rounds in which nodes can be away, and the moves",
        maintenance_plan.plan_options,
    ),
    "start": ("empty nodes for maintenance, one after the other", _start_options),
    "run": (
        "carry out the maintenance of one node in the foreground, without the daemon",
        _run_options,
    ),
    "roll": ("empty all nodes or a node group for maintenance, in rounds", _roll_options),
    "list": (
        "list all recorded maintenance with its progress",
        maintenance_list.list_options,
    ),
    "wait": (
        "wait until the node is ready, back or done, for scripts",
        maintenance_wait.wait_options,
    ),
    "show": ("show one maintenance with all its records", maintenance_list.show_options),
    "pause": (
        "pause all planned maintenance, or the maintenance of a node, until resume",
        maintenance_pause.pause_options,
    ),
    "resume": ("end a pause of maintenance", maintenance_pause.resume_options),
    "done": ("take a node back into service after the work on it", _done_options),
    "cancel": ("cancel the maintenance of a node", _cancel_options),
    "shutdown": (
        "stop all instances of nodes, then switch these off",
        maintenance_shutdown.shutdown_options,
    ),
    "bring-up": (
        "start the stopped nodes' instances after a shutdown",
        maintenance_shutdown.bring_up_options,
    ),
}
