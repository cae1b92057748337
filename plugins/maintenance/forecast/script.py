"""A plan as a shell script: for where the daemon does not act, and for admins who read first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.jobs.job_sets import commands
from ganeti_steward.allocators.jobs.operations import replace_secondary
from ganeti_steward.plugins.maintenance.repairs.maintenance_case import leaves_by

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.roll import Leave, Roll, Round
    from ganeti_steward.core.model.cluster import Cluster, Instance

_HEAD: Final = """\
#!/bin/bash
# The rounds of gnt-steward maintenance plan for the cluster at {time}.
# Run it as root on the master.  It stops at the first command that fails and undoes nothing:
# the last command that it printed is the one that failed.  A new plan has the remaining rounds.
#
# WORK=/path/to/program: a program that gets the name of an empty node, reboots it and waits until
# it is back.  Without WORK you must do that by hand.
set -euo pipefail
export LC_ALL=C

run() {{ printf '+ %s\\n' "$*"; "$@"; }}
work() {{
  if [[ -n ${{WORK:-}} ]]; then
    run "$WORK" "$1"
  else
    read -r -p "Nothing runs on $1. Reboot it, wait until it is back, and press Enter. " </dev/tty
  fi
  until gnt-node list --no-headers -o bootid "$1" | grep -q '^[0-9a-f]'; do sleep 5; done
}}
"""


def script(roll: Roll, cluster: Cluster, time: str, *, returns: bool) -> str:
    """The script; ``time``: when the cluster was read; ``returns``: whether instances go home."""
    lines = [_HEAD.format(time=time)]
    for number, one in enumerate(roll.rounds, 1):
        lines.append(f"\n# round {number} of {len(roll.rounds)}: {' '.join(one.nodes)}")
        lines += _round(one, cluster, returns=returns)
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _round(one: Round, cluster: Cluster, *, returns: bool) -> Iterator[str]:
    drained = [name for name in one.nodes if not cluster.node(name).drained]
    yield from (
        f"run gnt-node modify --auto-promote -D yes {shlex.quote(name)}" for name in drained
    )
    for leave in one.leaves:
        yield from _move(leave, leave.target, cluster)
    for copy in one.copies:
        yield from _commands(replace_secondary(copy.instance, copy.target))
    yield from (f"work {shlex.quote(name)}" for name in one.nodes)
    # A node that was rebooted has lost the connections of its disks.
    copied = {copy.instance for copy in one.copies}
    for instance in _mirrored(one.nodes, cluster):
        if instance.name not in copied:
            yield f"run gnt-instance activate-disks --wait-for-sync {shlex.quote(instance.name)}"
    yield from (f"run gnt-node modify --auto-promote -D no {name}" for name in drained)
    for leave in one.leaves:
        if not leave.target:
            yield f"run gnt-instance startup {shlex.quote(leave.instance)}"
        elif returns and leave.instance not in copied:
            yield from _move(leave, leave.source, cluster)


def _mirrored(nodes: Sequence[str], cluster: Cluster) -> Iterator[Instance]:
    """The instances that should run, and have a copy on one of these nodes."""
    for one in cluster.instances:
        runs = one.template == "drbd" and one.up and not one.forthcoming
        if runs and not {*nodes}.isdisjoint(one.nodes):
            yield one


def _move(leave: Leave, target: str, cluster: Cluster) -> Iterator[str]:
    one = cluster.instances[cluster.instance_index[leave.instance]]
    if not leave.target:
        yield f"run gnt-instance shutdown {shlex.quote(leave.instance)}"
    elif leave.how == "move":
        yield shlex.join(["run", "gnt-instance", "move", "-f", "-n", target, leave.instance])
    else:
        place = None if one.secondaries else target
        yield from _commands(leaves_by(leave.how)(leave.instance, place))


def _commands(operation: dict[str, object]) -> Iterator[str]:
    return (f"run {line}" for line in commands([operation]))
