"""``gnt-steward maintenance pause`` and ``resume``: tags of the cluster or a node."""

from __future__ import annotations

import argparse
from typing import Final

from ganeti_steward.core.commands.cluster_options import (
    add_reason_option,
    add_source_options,
    read_source,
)
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.core.model.cluster import Cluster, Node
from ganeti_steward.plugins.maintenance.cli.cluster import (
    add_submit_option,
    live_client,
    run_tag_job,
)
from ganeti_steward.plugins.maintenance.pause import pause_tag, pause_tags
from ganeti_steward.plugins.model.incident import MAINTENANCE_PAUSE_TAG
from ganeti_steward.plugins.model.operations import remove_tags, set_tags

#: The reason where none is given.
_REASON: Final = "by an admin"


def pause_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``pause``."""
    describe(
        one,
        {
            "gnt-steward maintenance pause --reason 'until Monday'": "pause all maintenance",
            "gnt-steward maintenance pause node3": "pause the maintenance of node3",
        },
    )
    _finish(one, "a node; none: all maintenance")
    one.set_defaults(act=_pause)


def resume_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``resume``."""
    describe(one, {"gnt-steward maintenance resume": "remove the tags that pause maintenance"})
    _finish(one, "a node that is paused by itself; none: the pause of all")
    one.set_defaults(act=_resume)


def _finish(one: argparse.ArgumentParser, node: str) -> None:
    one.add_argument("node", nargs="?", help=node)
    add_submit_option(one)
    add_reason_option(one)
    add_source_options(one, positional=False, files=False)


def _pause(options: argparse.Namespace) -> int:
    tag = pause_tag(options.reason or _REASON, MAINTENANCE_PAUSE_TAG)
    node = _node(options, read_source(options).cluster)
    return run_tag_job(
        live_client(options),
        set_tags(*_kind(node), [tag]),
        "maintenance pause",
        f"Set {tag} on {_shown(node)}; nothing more is started until it is removed.",
        submit=options.submit,
    )


def _resume(options: argparse.Namespace) -> int:
    cluster = read_source(options).cluster
    node = _node(options, cluster)
    own = pause_tags(node.tags if node else cluster.tags, MAINTENANCE_PAUSE_TAG)
    if not own:
        print(f"Nothing to do: {_shown(node)} has no tag that pauses maintenance.")
        return EXIT_OK
    return run_tag_job(
        live_client(options),
        remove_tags(*_kind(node), own),
        "maintenance resume",
        f"Removed {', '.join(own)} from {_shown(node)}.",
        submit=options.submit,
    )


def _node(options: argparse.Namespace, cluster: Cluster) -> Node | None:
    """The node that is meant; None: the cluster.  Raises StewardError."""
    from ganeti_steward.allocators.state.names import Names  # imports the engine

    if not options.node:
        return None
    names = Names(cluster)
    found = names.nodes([options.node])
    names.check()
    return cluster.node(next(iter(found)))


def _kind(node: Node | None) -> tuple[str, str]:
    return ("node", node.name) if node else ("cluster", "")


def _shown(node: Node | None) -> str:
    return node.name if node else "the cluster"
