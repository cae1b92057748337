"""The end of a planned maintenance: the node is taken back, and what ran there comes home."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.evacuation_case import listed
from ganeti_steward.plugins.maintenance.repairs.maintenance_case import (
    MaintenanceCase,
    fails,
    for_each,
    leaves_by,
    master_runs,
    runs,
    set_offline,
    taken_back,
    wait_for_sync,
)
from ganeti_steward.plugins.model import operations, task
from ganeti_steward.plugins.model.debts import (
    HOME_TAG,
    SHUTDOWN_TAG,
    is_lost_candidate,
    was_shut_down,
)
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG
from ganeti_steward.plugins.model.world import Reported


def returning(case: MaintenanceCase) -> task.Plan | None:
    """What comes before instances go home; None: nothing more."""
    report = case.world.observations.get(case.node.uuid)
    if case.node.offline:
        return set_offline(case, "nothing comes back to it")
    if not case.world.answers(case.name):
        since, limit = case.incident.silent_since or case.world.now, case.settings.return_limit
        left = limit - (case.world.now - since) / 10**9
        return task.Wait(
            f"{case.name} does not answer yet: in {left:.0f} s its maintenance fails; look at its "
            "console",
            since=since,
            until=since + int(limit * 10**9),
        )
    if isinstance(report, Reported) and report.needs_repair:
        return task.Wait(f"{case.name} reports {report.status}")
    if found := _connected(case):
        return found
    if case.request.after and not case.request.after_ended:
        return runs(case, task.AFTER, case.request.after, " before it is taken back")
    if case.node.drained and not case.request.drained:
        return taken_back(case, "it answers, and all copies are in sync")
    if not case.node.drained and case.role_tags:
        promotion = [operations.promote(case.name)] if is_lost_candidate(case.node) else []
        return _without_tags(case, case.role_tags, "which a person has taken back", promotion)
    if (tag := case.request.tag) in case.node.tags:
        return _without_tags(case, [tag], "which was maintained as that tag requests", [])
    return None


def _without_tags(case: MaintenanceCase, tags: list[str], why: str, first: Job) -> task.Task:
    """Take tags off the node; ``first``: what makes it a master candidate again before that."""
    job = [*first, operations.remove_tags("node", case.name, tags)]
    again = f"make {case.name} a master candidate again, and " if first else ""
    reason = f"{again}remove {', '.join(tags)} from {case.name}, {why}"
    return case.on_node(task.TIDY, reason, job)


def _connected(case: MaintenanceCase) -> task.Plan | None:
    """The copies on the node are complete again before anything else is done; None: they are."""
    degraded = []
    for instance in case.mirrored:
        health = case.disk_health(instance.name)
        excluded = OPT_OUT_TAG in instance.tags
        if health and health.faults and not (health.syncing or excluded):
            if case.incident.attempt(instance.name).prepared >= case.settings.move_attempts:
                reason = f"its disks stay degraded: {', '.join(health.faults)}"
                return fails(case, [(instance.name, reason)])
            degraded.append((instance.name, [operations.activate_disks(instance.name)]))
    if degraded:
        return for_each(case, task.ACTIVATE, "activate disks of instances with a copy on", degraded)
    return wait_for_sync(case, "before anything else")


def home(case: MaintenanceCase) -> task.Plan:
    """What ran here comes back, as far as it may; then it is over.

    The tags say of each instance what was done to it, also by a maintenance before.
    """
    away = [
        instance
        for name, instance in sorted(case.world.instances.items())
        if name in case.request.ran or not {*instance.tags}.isdisjoint(case.debts)
    ]
    excluded = [instance for instance in away if OPT_OUT_TAG in instance.tags]
    away = [instance for instance in away if instance not in excluded]
    down = [instance for instance in away if was_shut_down(instance, case.node)]
    if down:
        jobs = [
            (one.name, [operations.start(one.name), *_untag(case, one, SHUTDOWN_TAG)])
            for one in down
        ]
        return for_each(case, task.START, "start what was shut down for the maintenance of", jobs)
    wanted = [
        instance
        for instance in away
        if instance.up and instance.primary != case.name and not _left(case, instance)
    ]
    may, stays = _fitting(case, wanted) if case.request.returns else ([], [])
    if may:
        jobs = [(one.name, [_coming(case, one), *_untag(case, one, HOME_TAG)]) for one in may]
        return for_each(case, task.HOME, "bring back to", jobs, case.name)
    return _tidied(case, away) or _last(case) or _over(case, excluded, stays)


def _tidied(case: MaintenanceCase, away: Iterable[Instance]) -> task.Plan | None:
    """Take off what is not true any more; None: nothing is left.

    What has no place on the node now keeps its tag.
    """
    jobs = []
    for one in away:
        is_home = one.primary == case.name or _left(case, one) or not case.request.returns
        tags = [*([HOME_TAG] if is_home else []), *([SHUTDOWN_TAG] if one.up else [])]
        if job := _untag(case, one, *tags):
            jobs.append((one.name, job))
    what = "remove the tags of what is as before the maintenance of"
    return for_each(case, task.TIDY, what, jobs) if jobs else None


def _last(case: MaintenanceCase) -> task.Plan | None:
    """The hook at the end; None: there is none, or it has ended well."""
    if not case.request.master_after or case.request.master_after_ended:
        return None
    when = f" after the maintenance of {case.name}"
    return master_runs(case, task.MASTER_AFTER, case.request.master_after, when)


def _over(
    case: MaintenanceCase, excluded: Iterable[Instance], stays: list[tuple[str, str]]
) -> task.Done:
    """The end, with what is not as it was before."""
    tagged = f"it has the tag {OPT_OUT_TAG}"
    down = [(one.name, tagged) for one in excluded if was_shut_down(one, case.node)]
    moved = [one for one in excluded if one.up and one.primary != case.name]
    if case.request.returns:
        stays = [*stays, *((one.name, tagged) for one in moved)]
    sentence = f"the maintenance of {case.name} is over"
    sentence += f"; not back on it: {listed(stays)}" if stays else ""
    sentence += f"; not started again: {listed(down)}" if down else ""
    return task.Done(sentence)


def _left(case: MaintenanceCase, instance: Instance) -> bool:
    """Whether its copy has left the node as requested: its disks are not copied once more."""
    return case.request.full and instance.template == "drbd" and case.name not in instance.nodes


def _coming(case: MaintenanceCase, instance: Instance) -> dict[str, object]:
    from ganeti_steward.allocators.rolling.fleet import COPY, FAIL_OVER, MIGRATE
    from ganeti_steward.allocators.rolling.fleet import obstacle_to_migration as obstacle

    copied = instance.template in ("plain", "file")
    how = COPY if copied else FAIL_OVER if obstacle(instance) else MIGRATE
    return leaves_by(how)(instance.name, None if instance.secondaries else case.name)


def _fitting(
    case: MaintenanceCase, wanted: Iterable[Instance]
) -> tuple[list[Instance], list[tuple[str, str]]]:
    """Those that may run on the node again, all of them together, and why others may not."""
    from ganeti_steward.allocators.rolling.coming import coming_back

    site_rules = case.context.site_rules
    found = coming_back(
        case.world.cluster, case.name, [instance.name for instance in wanted], site_rules
    )
    may = [instance for instance in wanted if instance.name in found.may]
    return may, [(name, why) for name, why in found.stays if name not in found.may]


def _untag(case: MaintenanceCase, instance: Instance, *tags: str) -> Job:
    """Take these of the tags off an instance that it has."""
    there = [own for tag in tags if (own := case.own(tag)) in instance.tags]
    return [operations.remove_tags("instance", instance.name, there)] if there else []
