"""What ``gnt-steward check`` reports in addition on a live cluster: disks, nodes' own reports."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ganeti_steward.allocators.health.troubles import Item, Looked, Trouble
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.rapi import Rapi
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.ganeti.this_node import DATA, master_name
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.filters.filter_rules import read_rules
from ganeti_steward.plugins.filters.rule_notes import altered
from ganeti_steward.plugins.maintenance.cli.cluster import daemon_address
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_status
from ganeti_steward.plugins.maintenance.queue.short_jobs import check_job, read_check, run_short
from ganeti_steward.plugins.maintenance.shutdown.plan import own_tags
from ganeti_steward.plugins.model.cause import cause
from ganeti_steward.plugins.model.debts import all_debts
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import BAD, STATES

_BAD: Final = {state.status for state in STATES.values() if state.look == BAD}
_DISKS: Final = "the disks of instances"
_REPORTS: Final = "the reports of nodes"
#: The text and the source for the reason trail of the jobs.
_TRAIL: Final = (("gnt-steward", "check: look at the disks of instances"),)


def look(source: Source, *, disks: bool) -> Looked:
    """What else is wrong, and what could not be looked at; raises StewardError.

    ``disks``: whether jobs may be submitted that read the state of disks.
    """
    if disks and not isinstance(source.jobs, Luxi):
        raise StewardError("--disks needs luxid, which runs on the master")
    found = [_look_at_disks(source) if disks else Looked((), (f"{_DISKS} (--disks)",))]
    if isinstance(source.jobs, Luxi):
        found.append(_look_at_reports(source.cluster))
    else:
        found.append(Looked((), (f"{_REPORTS} (on the master only)",)))
    found.append(Looked(tuple(_unfinished(source.cluster)), ()))
    if isinstance(source.jobs, Luxi | Rapi):
        found.append(_look_at_rules(source.jobs))
    return Looked.together(found)


def _unfinished(cluster: Cluster) -> Iterator[Trouble]:
    """What maintenance or a shutdown has not undone yet: for Ganeti a person wants it so."""
    back = "gnt-steward maintenance bring-up"
    debts, nodes = all_debts(cluster), {one.name for one in cluster.nodes if own_tags(one.tags)}
    items = [Item(one.node.name, detail=f"{one.sentence}; {one.undone_by}") for one in debts]
    items += [Item(name, detail=f"it was shut down; {back}") for name in sorted(nodes)]
    items += [
        Item(one.primary, detail=f"{one.name} was shut down; {back}")
        for one in cluster.instances
        if one.primary not in nodes and own_tags(one.tags)
    ]
    if items:
        yield Trouble("unfinished", tuple(items))


def _look_at_rules(client: Luxi | Rapi) -> Looked:
    try:
        rules = read_rules(client).rules
    except StewardError as err:
        return Looked((), (f"the rules of the maintenance daemon ({err})",))
    items = (
        Item(f"filter rule {one.uuid}", detail=text) for one in rules if (text := altered(one))
    )
    return Looked((Trouble("altered-rules", tuple(items)),), ())


# Disks


def _look_at_disks(source: Source) -> Looked:
    luxi, groups = source.jobs, _mirrored(source.cluster)
    assert isinstance(luxi, Luxi)
    jobs = [check_job([one.name for one in instances]) for instances in groups.values()]
    states = run_short(luxi, jobs, [_TRAIL] * len(jobs), time.sleep) if jobs else []
    found = dict[str, DiskHealth]()
    skipped = list[str]()
    for group, state in zip(groups, states, strict=True):
        if state.status == SUCCESS:
            found |= read_check(state.results, 0)
        else:
            skipped.append(f"{_DISKS} of group {group} ({_fault(state)})")
    return Looked(tuple(_disk_troubles(found)), tuple(skipped))


def _mirrored(cluster: Cluster) -> Mapping[str, list[Instance]]:
    """Name of a group -> its running drbd instances both nodes of which can answer."""
    live = {node.name: node for node in cluster.nodes if node.live}
    found = defaultdict[str, list[Instance]](list)
    for one in cluster.instances:
        runs = one.up and not one.forthcoming and one.template == "drbd"
        if runs and live.keys() >= {*one.nodes}:
            found[cluster.group(live[one.primary].group).name].append(one)
    return found


def _fault(state: JobState) -> str:
    if not state.number:
        return state.error
    if not state.ended:
        return f"job {state.number} did not end in time"
    return f"job {state.number} ended with {state.status}: {state.error}"


def _disk_troubles(found: Mapping[str, DiskHealth]) -> Iterator[Trouble]:
    wrong = [(name, found[name]) for name in sorted(found) if found[name].faults]
    for kind, good in (("bad-disks", False), ("degraded-disks", True)):
        items = [
            Item(name, detail="; ".join(health.faults))
            for name, health in wrong
            if health.primary_good == good
        ]
        yield Trouble(kind, tuple(items))


# Reports of nodes


def _look_at_reports(cluster: Cluster) -> Looked:
    try:
        settings = load_config(config_path(), ("maintd",)).section(Maintd)
        if not (settings.address or master_name(DATA)):
            return Looked((), (f"{_REPORTS} (the master is not known on this machine)",))
        status = fetch_status(daemon_address(settings, DATA), settings.port)
        return Looked(tuple(_report_troubles(status, cluster)), ())
    except StewardError as err:
        return Looked((), (f"{_REPORTS} ({err})",))
    except (AttributeError, LookupError, TypeError) as err:
        fault = f"the answer is not a status of the daemon: {type(err).__name__}"
        return Looked((), (f"{_REPORTS} ({fault})",))


def _report_troubles(status: Mapping[str, Any], cluster: Cluster) -> Iterator[Trouble]:
    """``status``: see `fetch_status`."""
    incidents = status["incidents"] or []
    causes = {one["node-name"]: cause(one["original"]) for one in incidents}
    offline = {node.name for node in cluster.nodes if node.offline}
    silent, ill = list[Item](), list[Item]()
    for node in status["daemon"]["nodes"]:
        name, word = node["node-name"], node["observation"]
        if word == "ill":
            ill.append(Item(name, detail=causes.get(name) or node["status"]))
        elif word in ("silent", "refused") and name not in offline:
            silent.append(Item(name, detail=node["why"]))
    yield Trouble("reports", tuple(ill))
    yield Trouble("silent-agents", tuple(silent))
    failed = [one for one in incidents if one["repair-status"] in _BAD]
    yield Trouble(
        "failed-incidents", tuple(Item(one["node-name"], detail=one["note"]) for one in failed)
    )
