"""The operations of each repair."""

from __future__ import annotations

from ganeti_steward.core.model.opcodes import (
    REPLACE_DISKS,
    Job,
    Operation,
    after,
    failover,
    migrate,
    remove_tags,
    set_tags,
)
from ganeti_steward.plugins.maintenance.harep import health


def repair_job(
    step: str, name: str, iallocator: str, *, may_fail_over: bool, primary_good: bool = True
) -> Job:
    """The job of one repair of an instance.

    ``iallocator`` finds new nodes; ``may_fail_over``: whether a migration may become a failover;
    ``primary_good``: whether its disks on the primary are good.
    """
    if step == health.REINSTALL:
        return [_recreate(name, iallocator), _reinstall(name)]
    if step == health.FAILOVER:
        return [failover(name)]
    if step == health.MIGRATE:
        return [{**migrate(name), "allow_failover": may_fail_over}]
    if step == health.ACTIVATE:
        return [{"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": name}]
    if step == health.REPLACE and not primary_good:
        return [_replace(name, "replace_auto")]
    return [{**_replace(name, "replace_new_secondary"), "iallocator": iallocator}]


def delay(seconds: float) -> Operation:
    """An operation that only waits, on the master."""
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": seconds,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": False,
    }


def tag_jobs(name: str, add: str, remove: tuple[str, ...]) -> list[Job]:
    """The jobs that set a tag of an instance and then remove others."""
    jobs: list[Job] = [[set_tags("instance", name, [add])]]
    if remove:
        jobs.append([after(remove_tags("instance", name, remove), [-1])])
    return jobs


def _recreate(name: str, iallocator: str) -> Operation:
    return {
        "OP_ID": "OP_INSTANCE_RECREATE_DISKS",
        "instance_name": name,
        "disks": [],
        "nodes": [],
        "iallocator": iallocator,
    }


def _reinstall(name: str) -> Operation:
    return {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": name, "force_variant": False}


def _replace(name: str, mode: str) -> Operation:
    return {
        "OP_ID": REPLACE_DISKS,
        "instance_name": name,
        "mode": mode,
        "disks": [],
        "early_release": False,
        "ignore_ipolicy": False,
    }
