"""``gnt-steward maintd``: the maintenance daemon, in the foreground, and what steers it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping

from ganeti_steward.core.builtins import MAINTENANCE
from ganeti_steward.core.commands.cluster_options import add_reason_option, add_source_options
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import add_subcommand, describe
from ganeti_steward.core.commands.tables import add_json_option, print_json, print_lines
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_NOT_MASTER, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.sources import read_file
from ganeti_steward.core.ganeti.this_node import DATA, SOCKET
from ganeti_steward.core.json_reader import counted
from ganeti_steward.plugins.maintenance.cli import forecasts
from ganeti_steward.plugins.maintenance.cli.cluster import (
    add_submit_option,
    daemon_address,
    live_client,
    run_tag_job,
)
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_status, status_lines
from ganeti_steward.plugins.maintenance.edges.status import observation_word, wait_line
from ganeti_steward.plugins.maintenance.engine.decision import Change, Decision
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN, mermaid
from ganeti_steward.plugins.maintenance.pause import pause_tag, pause_tags
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.operations import remove_tags, set_tags
from ganeti_steward.plugins.model.task import Held, Task
from ganeti_steward.plugins.model.world import Reported, World
from ganeti_steward.plugins.texts import local_time


def decision_lines(
    decision: Decision, incidents: Mapping[str, Incident], held: Iterable[Held]
) -> Iterator[str]:
    """Everything that is done, in its order, then everything ``held`` back.

    ``incidents``: by uuid, as they were before.
    """
    known = {**incidents, **{one.uuid: one for one in decision.records}}
    done = [
        *map(_change, decision.changes),
        *(f"cancel job {number}, if it has not started" for number in decision.cancels),
        *(
            line
            for one in decision.started
            for line in _started(_subject(one.incident, known), one.task)
        ),
        *(line for one in decision.routine for line in _started(one.name, one.task)),
        *(f"filter rule {one.holding}: {one.sentence}" for one in decision.releases.changes),
    ]
    yield from done or ["nothing is done"]
    for one in held:
        yield f"held ({one.brake}) {_subject(one.subject, known)}: {wait_line(one)}"


def silent_lines(world: World) -> Iterator[str]:
    """The nodes of which no report counts: what is broken there is not seen."""
    online = [node for node in world.cluster.nodes if not node.offline]
    shown = {node.name: world.observations.get(node.uuid) for node in online}
    unknown = {name: one for name, one in shown.items() if not isinstance(one, Reported)}
    if unknown:
        number = f"{len(unknown)} of {len(online)}"
        yield f"no report of {number} online nodes: what is broken there is not seen"
    for name, one in unknown.items():
        yield f"  {name}: {'not polled' if one is None else f'{observation_word(one)}, {one.why}'}"


def _change(change: Change) -> str:
    before = change.before.state_name if change.before else "new"
    after = change.after.state_name if change.after else FORGOTTEN
    one = change.after or change.before
    name = f"{one.uuid} of {one.node_name}" if one else ""
    return f"{before} -> {after} {name}: {change.reason}"


def _started(subject: str, task: Task) -> Iterator[str]:
    yield f"start {task.step} {subject}: {task.reason}"
    if task.command:
        yield f"  command {task.command}"
    for job in task.jobs:
        yield f"  job {', '.join(operation['OP_ID'] for operation in job)}"
    used = [*sorted(task.nodes), *sorted(task.instances)]
    yield from [f"  uses {', '.join(used)}"] if used else []


def _subject(subject: str, known: Mapping[str, Incident]) -> str:
    incident = known.get(subject)
    return f"{subject} of {incident.node_name}" if incident else subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The daemon's options, and one sub-command for each way to steer it."""
    describe(
        parser,
        {
            "gnt-steward maintd -d": "the daemon in the foreground, logging everything",
            "gnt-steward maintd --record rounds.jsonl": "also keep what each round is decided from",
            "gnt-steward maintd --replay rounds.jsonl": "what is decided from each of them",
        },
        statuses={
            EXIT_OK: "a signal has ended it",
            EXIT_FAILURE: "it cannot begin: the configuration, the address, the lock, an undecided "
            "vote",
            EXIT_NOT_MASTER: "this node is not the master",
        },
    )
    add = parser.add_argument
    add("-b", "--bind", metavar="ADDRESS", help="serve the status there, not as configured")
    add("-p", "--port", type=int, help="serve the status at this TCP port, not as configured")
    add("-d", "--debug", action="store_true", help="log everything")
    add(
        "--no-voting",
        action="store_true",
        help="take an undecided vote as won; requires --yes-do-it",
    )
    add("--yes-do-it", action="store_true", help="confirms --no-voting")
    add("--record", metavar="FILE", help="add to FILE what each round is decided from")
    once = parser.add_mutually_exclusive_group()
    once.add_argument(
        "--replay", metavar="FILE", help="print what is decided from each moment of FILE, and end"
    )
    once.add_argument(
        "--diagram", action="store_true", help="print the states of an incident as Mermaid, and end"
    )
    parser.set_defaults(act=_run, data=DATA)
    _add_luxid(parser)
    _add_commands(parser)


def _add_luxid(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--luxi-socket", metavar="SOCKET", default=SOCKET, help=f"luxid's socket; default: {SOCKET}"
    )


def _add_commands(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT")
    add_subcommand(what, "status", "show what the running daemon does and holds back", _add_status)
    add_subcommand(
        what, "plan", "show what the next round would do, and what it would hold back", _add_plan
    )
    add_subcommand(what, "pause", "pause the daemon: it starts nothing until resume", _add_pause)
    add_subcommand(what, "resume", "end every pause", _add_resume)


def _add_status(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintd status": "of the daemon on the master",
            "gnt-steward maintd status -b 192.0.2.10 --json": "of a daemon elsewhere, as data",
        },
        statuses={EXIT_FAILURE: "no daemon answers"},
    )
    one.add_argument("-b", "--bind", metavar="ADDRESS", help="the address it serves the status at")
    one.add_argument("-p", "--port", type=int, help="the TCP port it serves the status at")
    add_json_option(one, "the same as data")
    one.set_defaults(act=_status)


def _add_plan(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward maintd plan": "decide as the next round would, and do nothing",
            "gnt-steward maintd plan --forecast": "what follows after that, to the end",
        },
    )
    _add_luxid(one)
    text = "each step to the end with its time, as if the mode was act and nothing else failed"
    one.add_argument("--forecast", action="store_true", help=text)
    forecasts.add_times(one)
    one.set_defaults(act=_plan)


def _add_pause(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintd pause 'work on the switch'": "running jobs continue"})
    one.add_argument("reason", metavar="REASON", help="the reason; status and plan show it")
    one.set_defaults(act=_pause)
    _add_tagging(one)


def _add_resume(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward maintd resume": "remove the tags that pause the daemon"})
    one.set_defaults(act=_resume)
    add_reason_option(one)
    _add_tagging(one)


def _add_tagging(parser: argparse.ArgumentParser) -> None:
    add_submit_option(parser)
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Run the daemon or the sub-command; returns the exit status."""
    status: int = options.act(options)
    return status


def _run(options: argparse.Namespace) -> int:
    from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
    from ganeti_steward.plugins.maintenance.daemon.process import run_daemon

    if options.diagram:
        sys.stdout.write(mermaid())
        return EXIT_OK
    if options.replay is not None:
        return _replay(options.replay)
    if options.no_voting != options.yes_do_it:
        raise StewardError("--no-voting and --yes-do-it are only possible together")
    return run_daemon(
        DaemonOptions(
            address=options.bind or "",
            port=options.port,
            debug=options.debug,
            undecided_is_master=options.no_voting,
            record=options.record or "",
            luxi_socket=options.luxi_socket,
            data=options.data,
        )
    )


def _replay(file: str) -> int:
    from ganeti_steward.plugins.maintenance.daemon.replay import read_moments, replay
    from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner, PluginRoutine

    config = configuration(MAINTENANCE)

    def used(settings: Maintd) -> Config:
        return config._replace(sections={**config.sections, "maintd": settings})

    def planner_for(settings: Maintd) -> PluginPlanner:
        return PluginPlanner(used(settings))

    def routine_for(settings: Maintd) -> PluginRoutine:
        return PluginRoutine(used(settings))

    lines = read_file(file).decode(errors="backslashreplace").splitlines()
    moments = replay(read_moments(lines), planner_for, routine_for)
    for number, one in enumerate(moments, 1):
        world, missing = one.moment.inputs.world, one.moment.missing
        if missing:
            print(f"{counted(missing, 'moment')} before this one could not be recorded")
        print(f"moment {number}: {local_time(world.now)}, mode {one.moment.settings.mode}")
        decided = decision_lines(one.decision, world.incidents, one.decision.held)
        print_lines(f"  {line}" for line in decided)
    return EXIT_OK


def _status(options: argparse.Namespace) -> int:
    settings = configuration(MAINTENANCE).section(Maintd)
    address = options.bind or daemon_address(settings, options.data)
    status = fetch_status(address, settings.port if options.port is None else options.port)
    if options.json:
        print_json(status)
    else:
        print_lines(status_lines(status))
    return EXIT_OK


def _plan(options: argparse.Namespace) -> int:
    from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
    from ganeti_steward.plugins.maintenance.daemon.process import preview

    with progress("reading the cluster and the reports of the nodes"):
        place = DaemonOptions(luxi_socket=options.luxi_socket, data=options.data)
        inputs, decision, held = preview(place)
    if options.forecast:
        world = inputs.world
        rates = forecasts.rates_of(options, world.cluster, Luxi(options.luxi_socket))
        known = [one for one in world.incidents.values() if one.active]
        found = forecasts.forecast_of(options, world, known, rates)
        forecasts.print_forecast(found, rates, options)
        return EXIT_OK
    print_lines(decision_lines(decision, inputs.world.incidents, held))
    print_lines(silent_lines(inputs.world))
    return EXIT_OK


def _pause(options: argparse.Namespace) -> int:
    tag = pause_tag(options.reason)
    return run_tag_job(
        live_client(options),
        set_tags("cluster", "", [tag]),
        "maintd pause",
        f"Set {tag} on the cluster; nothing is started until it is removed.",
        submit=options.submit,
    )


def _resume(options: argparse.Namespace) -> int:
    client = live_client(options)
    own = pause_tags(client.info()["tags"])
    if not own:
        print("Nothing to do: the cluster has no tag that pauses the daemon.")
        return EXIT_OK
    return run_tag_job(
        client,
        remove_tags("cluster", "", own),
        "maintd resume",
        f"Removed {', '.join(own)} from the cluster.",
        submit=options.submit,
    )
