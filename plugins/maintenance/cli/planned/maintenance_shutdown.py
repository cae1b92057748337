"""``gnt-steward maintenance shutdown`` and ``bring-up``: all of it off, and on again."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.jobs.run_jobs import Interrupts, interrupt_printer
from ganeti_steward.core.commands.cluster_options import (
    add_reason_option,
    add_source_options,
    source_options,
)
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, few
from ganeti_steward.core.ganeti.sources import open_luxid
from ganeti_steward.core.json_reader import counted
from ganeti_steward.plugins.maintenance.cli.planned import maintenance_plan
from ganeti_steward.plugins.maintenance.shutdown.acting import (
    BRING_UP,
    SHUTDOWN,
    Acting,
    Power,
    bring_up,
    read_cluster,
    read_powers,
    shut_down,
    wait_for_earlier,
)
from ganeti_steward.plugins.maintenance.shutdown.plan import Shutdown, plan_bring_up, plan_shutdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.model.cluster import Cluster

#: As many jobs as Ganeti runs at the same time unless it is configured otherwise.
_AT_ONCE: Final = 20
#: Seconds that servers with much memory need for their firmware, and some more.
_NODES: Final = 900
#: How many instances a note names.
_NAMED: Final = 10


def shutdown_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``shutdown``."""
    describe(
        one,
        {
            "gnt-steward maintenance shutdown --all --dry-run": "print each step",
            "gnt-steward maintenance shutdown --all --order order:": (
                "stop instances with the tag order:1 before those with order:2"
            ),
            "gnt-steward maintenance shutdown rack:a --timeout 300": "the nodes with this tag",
        },
        statuses={
            EXIT_FAILURE: "something could not be stopped or switched off, or nothing was done"
        },
    )
    _add_nodes(one)
    text = (
        "what the tag of an instance begins with that is followed by its order, a whole number: "
        "the lowest is stopped first; an instance without one has 0"
    )
    one.add_argument("--order", metavar="PREFIX", default="", help=text)
    text = "seconds until an instance is ended by force; default: Ganeti's (120)"
    one.add_argument("--timeout", type=maintenance_plan.positive, metavar="SECONDS", help=text)
    one.add_argument("--yes", action="store_true", help="without confirmation, for scripts")
    _finish(one)
    one.set_defaults(act=_shutdown)


def bring_up_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``bring-up``."""
    describe(
        one,
        {
            "gnt-steward maintenance bring-up": "all that shutdown has stopped",
            "gnt-steward maintenance bring-up rack:a": "what it has stopped on these nodes",
        },
        statuses={EXIT_FAILURE: "something is still missing: run it again"},
    )
    _add_nodes(one)
    text = f"seconds until the node daemons answer; default: {_NODES}"
    one.add_argument(
        "--timeout",
        type=maintenance_plan.positive,
        metavar="SECONDS",
        default=_NODES,
        help=text,
    )
    _finish(one)
    one.set_defaults(act=_bring_up)


def _add_nodes(one: argparse.ArgumentParser) -> None:
    text = "nodes, by name or uuid; or all with a tag, such as rack:a"
    one.add_argument("node", nargs="*", help=text)
    one.add_argument("-G", "--group", metavar="GROUP", help="all nodes of this node group")
    one.add_argument("--all", action="store_true", help="all nodes of the cluster")


def _finish(one: argparse.ArgumentParser) -> None:
    text = f"jobs at the same time; default: {_AT_ONCE}"
    one.add_argument(
        "--at-once", type=maintenance_plan.positive, metavar="N", default=_AT_ONCE, help=text
    )
    one.add_argument("--dry-run", action="store_true", help="print each step, and do nothing")
    add_reason_option(one)
    add_source_options(one, positional=False, files=False, rapi=False)


def _shutdown(options: argparse.Namespace) -> int:
    if not (options.dry_run or options.yes or sys.stdin.isatty()):
        raise StewardError("a shutdown must be confirmed: run it on a terminal, or with --yes")
    client, cluster, powers = _read(options)
    names = maintenance_plan.node_names(options, cluster)
    plan = plan_shutdown(cluster, names, options.order)
    _print_notes(plan)
    if not (options.dry_run or options.yes or _confirmed(plan, cluster)):
        return EXIT_FAILURE

    def act(acting: Acting) -> None:
        shut_down(acting, plan, powers, options.timeout)

    back = "to take it back: gnt-steward maintenance bring-up"
    return _acted(options, client, SHUTDOWN, act, back)


def _read(options: argparse.Namespace) -> tuple[Luxi, Cluster, Mapping[str, Power]]:
    client = open_luxid(source_options(options))
    if not options.dry_run:
        wait_for_earlier(client)
    return client, read_cluster(client), read_powers(client)


def _print_notes(plan: Shutdown) -> None:
    """What the user should know before the confirmation."""
    if plan.offline:
        names = ", ".join(node.name for node in plan.offline)
        print_notes([f"nothing is done to offline nodes: {names}"])
    if plan.one_copy:
        names = few([one.name for one in plan.one_copy], _NAMED)
        print_notes([f"these go on elsewhere with one copy of their disks: {names}"])


def _confirmed(plan: Shutdown, cluster: Cluster) -> bool:
    """Whether the user has typed the cluster's name."""
    nodes = counted(len(plan.nodes), "node")
    print(f"{counted(plan.instances, 'instance')} will be stopped, and {nodes} switched off.")
    print(f"Type the name of the cluster, {cluster.name}, to go on: ", end="", flush=True)
    if sys.stdin.readline().strip() == cluster.name:
        return True
    print("Nothing was done.")
    return False


def _bring_up(options: argparse.Namespace) -> int:
    client, cluster, powers = _read(options)
    options.all = options.all or not (options.node or options.group)
    plan = plan_bring_up(cluster, maintenance_plan.node_names(options, cluster))

    def act(acting: Acting) -> None:
        bring_up(acting, plan, powers, options.timeout)

    return _acted(options, client, BRING_UP, act, "all is back that was shut down")


def _acted(
    options: argparse.Namespace,
    client: Luxi,
    reason: str,
    act: Callable[[Acting], None],
    then: str,
) -> int:
    """Act, and print how it ended; the exit status.  ``then``: what is printed after success."""
    with Interrupts(interrupt_printer("the running jobs")) as interrupts:
        acting = Acting(client, reason, options.at_once, interrupts, dry=options.dry_run)
        act(acting)
    if acting.failures:
        acting.say(f"Not done ({len(acting.failures)}):")
        for failure in acting.failures:
            acting.say(f"  {failure}")
        return EXIT_FAILURE
    if not acting.dry:
        acting.say(f"Done; {then}.")
    return EXIT_OK
