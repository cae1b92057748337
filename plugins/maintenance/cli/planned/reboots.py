"""Which nodes have to be rebooted, and which were lately, as the daemon knows it from reports."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.plugins.maintenance.cli.cluster import running_daemon

#: Ganeti's suffixes of a period -> seconds.
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PERIOD: Final = re.compile(r"([0-9]{1,9})([smhdw]?)", re.ASCII)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Which of the chosen nodes are meant, see `chosen`."""
    text = "only nodes whose agents report that a reboot is required"
    parser.add_argument("--reboot-required", action="store_true", help=text)
    text = "not the nodes that were rebooted within this time, such as 7d or 12h"
    parser.add_argument("--skip-rebooted-within", type=_period, metavar="TIME", help=text)


def _period(text: str) -> int:
    found = _PERIOD.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text!a} is not a time: a number and s, m, h, d or w are expected"
        )
    return int(found[1]) * _UNITS[found[2]]


def chosen(options: argparse.Namespace, names: Sequence[str], now: float) -> list[str]:
    """Those of the nodes that the filters leave, with a note for each other one.

    ``now``: s since the epoch.  Raises StewardError where the daemon does not answer, which is
    called only where there is a filter.
    """
    if not (options.reboot_required or options.skip_rebooted_within):
        return list(names)
    nodes = {one["node-name"]: one for one in running_daemon()["daemon"]["nodes"]}
    kept = []
    for name in names:
        why = _left_out(options, nodes.get(name, {}), now)
        notes = [f"{name} is left out: {why}"] if why else _reasons(options, nodes.get(name, {}))
        print_notes(notes)
        kept += [] if why else [name]
    return kept


def _left_out(options: argparse.Namespace, node: Mapping[str, Any], now: float) -> str:
    """Why a node is not meant, in words; empty: it is."""
    required, booted = node.get("reboot-required"), node.get("booted")
    if options.reboot_required and required is None:
        return "whether a reboot is required is not known; gnt-steward maintd status has the reason"
    if options.reboot_required and not required:
        return "it reports that no reboot is required"
    within = options.skip_rebooted_within
    # One whose start is not known may have been rebooted long ago.
    if within and booted is not None and now - booted < within:
        return f"it was rebooted {(now - booted) / 3600:.1f} hours ago"
    return ""


def _reasons(options: argparse.Namespace, node: Mapping[str, Any]) -> Iterator[str]:
    if options.reboot_required:
        yield f"{node['node-name']} must be rebooted: {'; '.join(node['reboot-required'])}"
