"""What Ganeti's harep and the daemon's plugin do about the same instances."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from ganeti_steward.plugins.maintenance.queue.short_jobs import check_job, read_check
from ganeti_steward.plugins.model.disks import DiskHealth

from ..cluster import op, tagged, until
from .maintained_lab import MaintainedLab

A: Final = "ganeti:watcher:autorepair:"

_ID: Final = re.compile(r":[^:]+:[0-9]{10}:")
_DONE_BY_HAREP: Final = re.compile(r"Executing \w+ repair on (\S+)")
_TAG_OF_HAREP: Final = re.compile(r">>> Adding the following tag to (\S+):")

#: Instance -> what is done about it, in order.
Story = dict[str, list[str]]


def tags_of(lab: MaintainedLab, name: str) -> list[str]:
    """The tags of harep on an instance, without prefix, ids, times and job numbers."""
    return tags_of_all(lab)[name]


def tags_of_all(lab: MaintainedLab) -> Story:
    """The same of every instance."""
    return {
        name: sorted(masked(tag) for tag in found if tag.startswith(A))
        for name, found in lab.rows("instance", "name", "tags")
    }


def masked(tag: str) -> str:
    """A tag without what differs from run to run."""
    bare = _ID.sub(":ID:TIME:", tag.removeprefix(A))
    return re.sub(r"[0-9+]+$", "JOBS", bare) if ":ID:" in bare else bare


def set_tags(lab: MaintainedLab, wanted: Mapping[str, Iterable[str]]) -> None:
    """Have instances these tags of harep, without their prefix, and no others."""
    old = dict(lab.rows("instance", "name", "tags"))
    lab.do(
        *(
            op("TAGS_DEL", kind="instance", name=name, tags=old[name])
            for name in wanted
            if old[name]
        ),
        *(
            tagged("instance", name, *(f"{A}{end}" for end in ends))
            for name, ends in wanted.items()
            if ends
        ),
    )


def disks(lab: MaintainedLab, *names: str) -> dict[str, DiskHealth]:
    """What Ganeti finds of the disks of instances now."""
    operations = [{**one, "reason": [["test", "", 0]]} for one in check_job(names)]
    number = int(lab.luxi.call("SubmitJob", operations))
    until(lambda: lab.luxi.states([number])[0].ended)
    return read_check(lab.luxi.states([number])[0].results, 0)


def wait_for_jobs(lab: MaintainedLab, held: str) -> None:
    """Until every job has ended but the one with the number ``held``."""
    until(
        lambda: all(
            status in ("success", "error", "canceled")
            for number, status in lab.jobs().items()
            if str(number) != held
        )
    )


def last_job(lab: MaintainedLab) -> int:
    return max(lab.jobs(), default=0)


#: harep writes this again in each run, and removes the one before.
_REPEATED: Final = re.compile(r'.*"OP_TAGS_DEL".*\["result:[a-z-]+:ID:TIME:enoperm:"\]')


def jobs_after(lab: MaintainedLab, number: int) -> Story:
    """The operations of later jobs in their order, by instance; reads and repetitions left out."""
    story: Story = {}
    for job, ops in sorted((int(job), ops) for job, ops in lab.rows("job", "id", "ops")):
        for one in ops if job > number else ():
            name = one.get("instance_name") or one.get("name")
            if name and one["OP_ID"] != "OP_INSTANCE_QUERY_DATA":
                story.setdefault(name, []).append(described(one))
    return {
        name: [one for one, _ in groupby(one for one in found if not _REPEATED.match(one))]
        for name, found in story.items()
    }


def described(operation: Mapping[str, Any]) -> str:
    """An operation with the parameters that count."""
    left_out = {"reason", "comment", "depends", "priority", "debug_level", "dry_run"}
    given = {
        key: value
        for key, value in operation.items()
        if key not in left_out and value is not None and key not in ("instance_name", "name")
    }
    # Ganeti puts in the uuid, and the nodes that hail has chosen.
    for key in ("instance_uuid", "node_uuids", "nodes"):
        given.pop(key, None)
    if "tags" in given:
        given["tags"] = sorted(map(masked, given["tags"]))
    return json.dumps(given, sort_keys=True)


def dry_run(text: str) -> Story:
    """What harep says it would do: the operations and tags."""
    story: Story = {}
    name = ""
    for line in text.splitlines():
        if found := _DONE_BY_HAREP.fullmatch(line) or _TAG_OF_HAREP.fullmatch(line):
            name = found[1]
        elif line.startswith(">>> Removing"):
            name = ""
        elif line.startswith("jobs: "):
            for job in json.loads(line.removeprefix("jobs: ")):
                story.setdefault(name, []).extend(one["OP_ID"] for one in job)
        elif name and line.startswith('"') and "result:" in line:
            story.setdefault(name, []).append(masked(line.strip('"')))
    return story


def planned(text: str) -> Story:
    """What ``maintd plan`` says would be done about each instance: the operations and tags."""
    story: Story = {}
    name = ""
    for line in text.splitlines():
        if found := re.match(r"start \S+ harep (\S+): (.*)", line):
            name = found[1]
            if tag := re.match(rf"set ({re.escape(A)}\S+) on", found[2]):
                story.setdefault(name, []).append(masked(tag[1]))
        elif name and (jobs := re.fullmatch(r"  job (.*)", line)) and "TAGS" not in line:
            story.setdefault(name, []).extend(jobs[1].split(", "))
        elif not line.startswith("  "):
            name = ""
    return story
