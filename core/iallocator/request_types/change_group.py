"""``change-group``: move instances to other node groups (allocation 9.3)."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.iallocator.cluster_reader import instance_names
from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.result_checks import moves_all, moves_placed, moves_summary
from ganeti_steward.core.json_reader import Section, quoted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import ChangeGroup


def _read(section: Section, top: Section, cluster: Cluster) -> ChangeGroup:
    return ChangeGroup(instance_names(section, top, cluster), _target_groups(top, cluster, section))


def _target_groups(top: Section, cluster: Cluster, section: Section) -> tuple[str, ...]:
    """The uuids of the groups that are named by uuid or by name."""
    found = []
    for name in section.texts("target_groups"):
        matches = [cluster.groups[i].uuid for i in cluster.groups_named(name)]
        found += matches if len(matches) == 1 else []
        if len(matches) != 1 and isinstance(top.data.get("nodegroups"), dict):
            many = "more than one node group is" if matches else "no node group is"
            section.fault(f"{many} named {quoted(name)}", "target_groups")
    return tuple(dict.fromkeys(found))


TYPE: Final = RequestType(
    read=_read,
    is_result=lambda result, request, cluster: moves_all(result, request.instances, cluster),
    instances=lambda request: request.instances,
    placed=moves_placed,
    summary=moves_summary,
    leaves_out=True,
)
