"""What the program has to know of each request type, and whether a result answers a request.

The value of a type, its name and its hook are in `ganeti_steward.core.model.requests`.  Ganeti
itself checks next to nothing of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.json_reader import Section, quoted
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.core.model.cluster_reader import (
    full_names,
    instance_name,
    instance_names,
    instance_of,
)
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.core.model.requests import (
    EVAC_MODES,
    TYPE_NAMES,
    Allocate,
    AllocateSecondary,
    Balance,
    Capacity,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
    Request,
)

#: An instance and its nodes where a result puts it, primary first.
Placed = tuple[Instance, tuple[str, ...]]


class RequestType:
    """How requests of one type are read, and their results checked and summed up.

    The functions get values of their own type; a result they get was accepted by ``is_result``.
    A plain class: making it takes a tenth of the time of a NamedTuple, in every allocation.
    """

    __slots__ = ("instances", "is_result", "leaves_out", "placed", "read", "summary")

    read: Final[Callable[[Section, Section, Cluster], Request]]
    """from the request's section and the message's; faults are noted in the section"""
    is_result: Final[Callable[[Any, Any, Cluster], bool]]
    """whether a result has the right shape and names what exists (allocation 10); result, request,
    cluster.  Raises AttributeError, KeyError, TypeError or ValueError for other shapes"""
    instances: Final[Callable[[Any], Sequence[str]]]
    """the names of the instances a request is about"""
    placed: Final[Callable[[Any, Any, Cluster], list[Placed]] | None]
    """the instances where a result puts them; result, request, cluster.  None: it only counts"""
    summary: Final[Callable[[Any], str] | None]
    """a result in one word; None: the nodes of the one instance it places"""
    leaves_out: Final[bool]
    """whether the second list of a result names instances without a place (allocation 10)"""

    def __init__(
        self,
        *,
        read: Callable[[Section, Section, Cluster], Request],
        is_result: Callable[[Any, Any, Cluster], bool],
        instances: Callable[[Any], Sequence[str]],
        placed: Callable[[Any, Any, Cluster], list[Placed]] | None,
        summary: Callable[[Any], str] | None = None,
        leaves_out: bool = False,
    ) -> None:
        self.read, self.is_result, self.instances = read, is_result, instances
        self.placed, self.summary, self.leaves_out = placed, summary, leaves_out


def type_of(request: Request) -> RequestType:
    """The description of a request's type."""
    return TYPES[TYPE_NAMES[type(request)]]


# -- what an allocator returned


def outcome_fault(outcome: object, request: Request, cluster: Cluster) -> str:
    """What is wrong with what an allocator returned, for a sentence; empty for nothing."""
    if not isinstance(outcome, Answer | Refusal):
        return f"gave {type(outcome).__name__}, not an answer or a refusal"
    try:
        outcome.info.encode()
    except (AttributeError, UnicodeEncodeError):
        return f"gave the info {shown(outcome.info)}, which is not a text"
    explanations: object = outcome.explanations
    if explanations != () and not _are_explanations(explanations):
        return f"gave the explanations {shown(explanations)}"
    if isinstance(outcome, Refusal) or is_result(outcome.result, request, cluster):
        return ""
    return f"gave {shown(outcome.result)}, which is not an answer to this request on this cluster"


def _are_explanations(given: object) -> bool:
    from ganeti_steward.core.model.explanation import Explained  # not on Ganeti's path

    return isinstance(given, tuple) and all(isinstance(one, Explained) for one in given)


def is_result(result: Any, request: Request, cluster: Cluster) -> bool:
    """Whether the shape is right and everything named exists (allocation 10)."""
    try:
        return type_of(request).is_result(result, request, cluster)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _are_nodes(names: Any, number: int, cluster: Cluster) -> bool:
    """Whether these are the names of so many different nodes."""
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) and name in cluster.node_index for name in names)
        and len(set(names)) == len(names) == number
    )


# -- results [moved, failed, jobs]


def _are_moves(result: Any, cluster: Cluster) -> bool:
    """Whether a result is ``[moved, failed, jobs]``, each moved instance with jobs."""
    moved, failed, jobs = result
    groups = {group.name for group in cluster.groups}
    for name, group, nodes in moved:
        known = name in cluster.instance_index and group in groups
        if not known or not _are_nodes(nodes, len(nodes), cluster):
            return False
    if not all(reason is None or isinstance(reason, str) for _, reason in failed):
        return False
    operated = [operation["instance_name"] for job in jobs for operation in job]
    if not all(operation["OP_ID"] in MOVES for job in jobs for operation in job):
        return False
    return {name for name, _, _ in moved} == set(operated)


def _moves_all(result: Any, request: NodeEvacuate | ChangeGroup, cluster: Cluster) -> bool:
    """Whether each of the instances is moved or named as failed, once."""
    if not _are_moves(result, cluster):
        return False
    moved, failed, _ = result
    names = [*(name for name, _, _ in moved), *(name for name, _ in failed)]
    return sorted(names) == sorted(request.instances)


def _moves_placed(result: Any, request: object, cluster: Cluster) -> list[Placed]:
    """The moved instances, each where its last move puts it."""
    moved = {name: nodes for name, _, nodes in result[0]}
    return [(cluster.instance(name), tuple(nodes)) for name, nodes in moved.items()]


def _moves_summary(result: Any) -> str:
    """How many instances are moved, and how many are not."""
    return f"moved:{len(result[0])},failed:{len(result[1])}"


# -- allocate, multi-allocate, capacity (allocation 6)


def _read_allocate(section: Section, cluster: Cluster) -> Allocate:
    """A new instance, where it may go, and on how many nodes."""
    instance = instance_of(section, section.text("name"), cluster.volume_group)
    required = section.integer("required_nodes")
    if instance.template == "drbd" and required == 1:
        section.fault("a drbd instance needs 2 nodes, found the number 1", "required_nodes")
    return Allocate(
        instance=instance,
        required_nodes=required,
        group_name=section.optional_text("group_name"),
        restrict_to=section.optional_texts("restrict-to-nodes"),
    )


def _has_required_nodes(result: Any, request: Allocate | Relocate, cluster: Cluster) -> bool:
    return _are_nodes(result, request.required_nodes, cluster)


def _read_batch(section: Section, top: Section, cluster: Cluster) -> MultiAllocate:
    bodies = [
        section.entry("instances", number, body)
        for number, body in enumerate(section.items("instances"))
    ]
    items = tuple(_read_allocate(body, cluster) for body in bodies)
    return MultiAllocate(items, section.optional_text("group_name"))


def _is_batch_result(result: Any, request: MultiAllocate, cluster: Cluster) -> bool:
    """Whether each instance is placed or named as failed, once."""
    wanted = sorted((item.instance.name, item.required_nodes) for item in request.items)
    placed, failed = result
    names = [*(name for name, _ in placed), *failed]
    if sorted(names) != [name for name, _ in wanted]:
        return False
    # Two bodies may have the same name.
    return all(
        (name, len(nodes)) in wanted and _are_nodes(nodes, len(nodes), cluster)
        for name, nodes in placed
    )


def _batch_placed(result: Any, request: MultiAllocate, cluster: Cluster) -> list[Placed]:
    bodies = {(i.instance.name, i.required_nodes): i.instance for i in request.items}
    return [(bodies[name, len(nodes)], tuple(nodes)) for name, nodes in result[0]]


def _is_capacity_result(result: Any, request: Capacity, cluster: Cluster) -> bool:
    placements = result["placements"]
    return (
        result["count"] == len(placements)
        and isinstance(result["limited_by"], str)
        and all(_are_nodes(nodes, request.item.required_nodes, cluster) for nodes in placements)
    )


# -- relocate, allocate-secondary (allocation 9)


def _read_relocate(section: Section, top: Section, cluster: Cluster) -> Relocate:
    name = instance_name(section, top)
    leave = full_names(top, "nodes", cluster.node_index, section, "relocate_from")
    given = section.data.get("disk_space_total") is not None
    space = section.integer("disk_space_total") if given else None
    return Relocate(name, section.integer("required_nodes"), leave, space)


def _relocate_placed(result: Any, request: Relocate, cluster: Cluster) -> list[Placed]:
    instance = cluster.instance(request.name)
    kept = [node for node in instance.nodes if node not in request.relocate_from]
    return [(instance, (*kept, *result))]


def _secondary_placed(result: Any, request: AllocateSecondary, cluster: Cluster) -> list[Placed]:
    instance = cluster.instance(request.name)
    return [(instance._replace(template="drbd"), (*instance.nodes[:1], result))]


# -- node-evacuate, change-group, balance (allocation 9.2 and 9.3, the 2.1 design)


def _read_evacuate(section: Section, top: Section, cluster: Cluster) -> NodeEvacuate:
    names = instance_names(section, top, cluster)
    return NodeEvacuate(names, section.choice("evac_mode", EVAC_MODES))


def _read_change_group(section: Section, top: Section, cluster: Cluster) -> ChangeGroup:
    return ChangeGroup(instance_names(section, top, cluster), _target_groups(top, cluster, section))


def _target_groups(top: Section, cluster: Cluster, section: Section) -> tuple[str, ...]:
    """The uuids of the groups that are named by uuid or by name."""
    uuids = []
    for name in section.texts("target_groups"):
        matches = [cluster.groups[i].uuid for i in cluster.groups_named(name)]
        uuids += matches if len(matches) == 1 else []
        if len(matches) != 1 and isinstance(top.data.get("nodegroups"), dict):
            many = "more than one node group is" if matches else "no node group is"
            section.fault(f"{many} named {quoted(name)}", "target_groups")
    return tuple(dict.fromkeys(uuids))


def _read_balance(section: Section, top: Section, cluster: Cluster) -> Balance:
    if section.data.get("max_moves") is None:
        return Balance()
    limit = section.integer("max_moves")
    if limit < 0:
        section.fault(f"at least 0 is expected, found {limit}", "max_moves")
    return Balance(limit)


def _is_balance_result(result: Any, request: Balance, cluster: Cluster) -> bool:
    _, failed, jobs = result
    limit = request.max_moves
    return _are_moves(result, cluster) and not failed and (limit is None or len(jobs) <= limit)


#: Request type on the wire -> its description.
TYPES: Final = {
    "allocate": RequestType(
        read=lambda section, top, cluster: _read_allocate(section, cluster),
        is_result=_has_required_nodes,
        instances=lambda request: [request.instance.name],
        placed=lambda result, request, cluster: [(request.instance, tuple(result))],
    ),
    "multi-allocate": RequestType(
        read=_read_batch,
        is_result=_is_batch_result,
        instances=lambda request: [item.instance.name for item in request.items],
        placed=_batch_placed,
        summary=lambda result: f"placed:{len(result[0])},failed:{len(result[1])}",
        leaves_out=True,
    ),
    "relocate": RequestType(
        read=_read_relocate,
        is_result=_has_required_nodes,
        instances=lambda request: [request.name],
        placed=_relocate_placed,
    ),
    "allocate-secondary": RequestType(
        read=lambda section, top, cluster: AllocateSecondary(instance_name(section, top)),
        is_result=lambda result, request, cluster: _are_nodes([result], 1, cluster),
        instances=lambda request: [request.name],
        placed=_secondary_placed,
    ),
    "node-evacuate": RequestType(
        read=_read_evacuate,
        is_result=_moves_all,
        instances=lambda request: request.instances,
        placed=_moves_placed,
        summary=_moves_summary,
        leaves_out=True,
    ),
    "change-group": RequestType(
        read=_read_change_group,
        is_result=_moves_all,
        instances=lambda request: request.instances,
        placed=_moves_placed,
        summary=_moves_summary,
        leaves_out=True,
    ),
    "balance": RequestType(
        read=_read_balance,
        is_result=_is_balance_result,
        instances=lambda request: (),
        placed=_moves_placed,
        summary=_moves_summary,
    ),
    "capacity": RequestType(
        read=lambda section, top, cluster: Capacity(_read_allocate(section, cluster)),
        is_result=_is_capacity_result,
        instances=lambda request: [request.item.instance.name],
        placed=None,
        summary=lambda result: f"count:{result['count']}",
    ),
}
