"""Follows the work that the daemon has started on a node under maintenance, until it is back.

The work counts as done when the node answers with another boot id and a healthy report; where its
boot id was not known, when it has not answered and answers again.
"""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    NOT_KNOWN,
    REFUSED,
    UNCERTAIN,
    CommandResult,
)
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger, command_key
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.model.incident import Incident, Maintenance, Submission
from ganeti_steward.plugins.model.works import (
    failed_around,
    runs_on,
    take_back_by_hand,
    work_began,
)
from ganeti_steward.plugins.model.world import Reported, World

_SECOND: Final = 10**9

#: Ganeti's statuses of the answer of an out-of-band program: it is valid, there is no program.
_NORMAL: Final = 0
_NO_PROGRAM: Final = 3


def with_boot(incident: Incident, world: World) -> Incident:
    """A maintenance whose work is handed over now, with the boot id of its node."""
    request, report = incident.maintenance, world.observations.get(incident.node)
    if request is None:
        return incident
    boot = report.boot if isinstance(report, Reported) else ""
    return incident._replace(maintenance=request._replace(boot=boot, gone=False))


def work_ended(ledger: Ledger, uuid: str, submission: Submission, fault: str) -> None:
    """The command or the job of the work has ended; ``fault``: why the work was not done.

    Where it is not known how it ended, the node decides: it comes back, or it does not.
    """
    incident = ledger.incidents[uuid]
    if incident.maintenance:
        request = incident.maintenance._replace(begun=submission.at)
        ledger.update(incident._replace(maintenance=request))
    if fault:
        reason = f"{fault}; {take_back_by_hand(incident.node_name)}"
        ledger.happen(uuid, Event.FAILURE, reason)


def around_ended(ledger: Ledger, uuid: str, submission: Submission, fault: str) -> None:
    """The command before or after the work has ended; ``fault``: why it has not ended well.

    Where it is not known how it ended, it has not ended well.
    """
    incident = ledger.incidents[uuid]
    if fault:
        advice = failed_around(submission.step, incident.node_name)
        ledger.happen(uuid, Event.FAILURE, f"{fault}; {advice}")
    elif request := incident.maintenance:
        ended: dict[str, Any] = {f"{submission.step.replace('-', '_')}_ended": ledger.now}
        ledger.update(incident._replace(maintenance=request._replace(**ended)))


def handover_ended(
    ledger: Ledger, uuid: str, submission: Submission, result: CommandResult
) -> None:
    """Another node was requested to become the master: it did, or did not, or that is not known.

    Only where it certainly did not another one may be requested.
    """
    incident = ledger.incidents[uuid]
    request = incident.maintenance
    if request is None:
        return
    candidate = runs_on(incident, submission)
    if result.state in (NEVER_CAME, REFUSED):
        ledger.commands.pop(command_key(incident, submission.step), None)
        request = request._replace(declined=tuple(sorted({*request.declined, candidate})))
        what = f"{candidate} was not made the master"
    else:
        what = f"gnt-cluster master-failover on {candidate}"
        request = request._replace(handover=f"{what}: {result.text}")
    ledger.update(incident._replace(maintenance=request, note=f"{what}: {result.text}"))


def never_came(ledger: Ledger, uuid: str, result: CommandResult) -> CommandResult:
    """What it means that an agent does not know the command of the work.

    It may have lost its memory: where the boot id of the node was known, that decides.
    """
    incident = ledger.incidents[uuid]
    report = ledger.world.observations.get(incident.node)
    boot = incident.maintenance.boot if incident.maintenance else ""
    if not boot or (isinstance(report, Reported) and report.boot in ("", boot)):
        return result
    if isinstance(report, Reported):
        return result._replace(state=UNCERTAIN)
    text = f"{result.text}; whether the node was rebooted is known after its next report"
    return result._replace(state=NOT_KNOWN, text=text)


def power_cycle_fault(result: Any) -> str:
    """Why a node was not switched off and on, by the result of that operation; empty: it was.

    ``result``: for each node its name and the answer, each with a status.
    """
    try:
        ((_, (status, _)),) = result
    except (TypeError, ValueError):
        return ""
    if status == _NORMAL:
        return ""
    why = "there is none for it" if status == _NO_PROGRAM else "it failed"
    return f"Ganeti's out-of-band program did not switch the node off and on: {why}"


def apply_work(ledger: Ledger) -> None:
    """Note which nodes are away and back; a maintenance whose node stays away has failed."""
    for incident in ledger.all(lambda one: one.state.under_repair):
        request, node = incident.maintenance, ledger.world.nodes.get(incident.node)
        if request and node and (request.worked or work_began(incident)):
            _follow(ledger, incident, request, node)


def _follow(ledger: Ledger, incident: Incident, request: Maintenance, node: Node) -> None:
    answers, began = ledger.world.answers(node.name), work_began(incident)
    silent = None if answers else incident.silent_since or ledger.now
    request = request._replace(gone=request.gone or bool(began and not answers))
    if not request.worked and not why_not_back(request, ledger.world, node):
        request = request._replace(worked=ledger.now)
    ledger.update(incident._replace(maintenance=request, silent_since=silent))
    since = silent if request.worked else began
    limit = ledger.config.return_limit
    if since and ledger.now - since > limit * _SECOND:
        reason = (
            f"{node.name} has not come back within {limit:g} s: "
            f"{why_not_back(request, ledger.world, node)}; look at its console; "
            f"{take_back_by_hand(node.name)}"
        )
        ledger.happen(incident.uuid, Event.FAILURE, reason)


def why_not_back(request: Maintenance, world: World, node: Node) -> str:
    """Why the work on the node does not count as done, in words; empty: it does."""
    report = world.observations.get(node.uuid)
    if not world.answers(node.name):
        return "it does not answer"
    if isinstance(report, Reported) and report.needs_repair:
        return f"it reports {report.status}"
    if not request.boot:
        unknown = "which boot it had before the work is not known, and it has answered all the time"
        return "" if request.gone else unknown
    if not isinstance(report, Reported):
        return "its agent gives no valid report"
    return "" if report.boot not in ("", request.boot) else "its boot id is the same as before"
