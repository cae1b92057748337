"""What operations of Ganeti do to nodes and instances: one table over all opcodes of 3.0 and 3.1.

Whatever is not known counts as the worst: an opcode without a row affects the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.opcodes import REMOVE_TAGS, SET_TAGS
from ganeti_steward.plugins.model.operations import SET_NODE_PARAMS

_NONE: Final = frozenset[str]()


class ClusterFacts(NamedTuple):
    """What effects depend on in addition to the operations."""

    nodes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """name of a node -> its uuid, then uuid and name of its group"""
    offline: frozenset[str] = _NONE
    """names of the nodes that are marked offline"""
    instances: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """name -> names of its nodes, the primary first"""


class Effects(NamedTuple):
    """What a task does, at worst; names of nodes and instances are those of `ClusterFacts`."""

    demoted: frozenset[str] = _NONE
    """nodes that lose a role: drained, offline, no candidate, not vm_capable, removed, ..."""
    ineligible: frozenset[str] = _NONE
    """those of ``demoted`` that cannot be master candidates then"""
    powered: frozenset[str] = _NONE
    """nodes that are power-cycled or powered off, or run a program that may do that"""
    targets: frozenset[str] = _NONE
    """nodes that are named to get an instance or a copy of its disks"""
    cleared: frozenset[str] = _NONE
    """nodes of which logical volumes may be removed"""
    stopped: frozenset[str] = _NONE
    """instances that do not run, at least for a moment"""
    moved: frozenset[str] = _NONE
    """instances that may be started on another node"""
    abandoned: frozenset[str] = _NONE
    """those of ``moved`` whose primary is offline then: Ganeti cannot see whether they run there"""
    unchecked: frozenset[str] = _NONE
    """instances of which Ganeti is not to check the disks"""
    degraded: frozenset[str] = _NONE
    """instances that lose a copy of their disks, for a time or for good"""
    erased: frozenset[str] = _NONE
    """instances that lose data"""
    started: frozenset[str] = _NONE
    """instances that are started where they are then"""
    created: frozenset[str] = _NONE
    removed: frozenset[str] = _NONE
    """instances that are removed from the cluster"""
    tagged: frozenset[str] = _NONE
    """tags that are set, each after a ``+``, or removed, after a ``-``"""
    whole: frozenset[str] = _NONE
    """opcodes that affect the whole cluster, or of which that is not known"""

    @property
    def only_tags(self) -> bool:
        """Whether tags are all that is changed."""
        return bool(self.tagged) and self == Effects(tagged=self.tagged)

    @property
    def out(self) -> frozenset[str]:
        """Nodes that lose a role or their power."""
        return self.demoted | self.powered

    @property
    def touched(self) -> frozenset[str]:
        """Instances that exist already and to which something is done."""
        known = self.stopped | self.moved | self.degraded | self.erased | self.removed
        return known | self.started - self.created


def effects_of(jobs: Iterable[Sequence[Mapping[str, Any]]], facts: ClusterFacts) -> Effects:
    """What these jobs do when their operations run one after the other."""
    work = _EffectsSoFar(facts)
    for job in jobs:
        for operation in job:
            work.find_targets(operation)
            for rule in TABLE.get(operation["OP_ID"], (_whole,)):
                rule(work, operation)
    return Effects(**{name: frozenset(found) for name, found in work.found.items()})


def with_power_cycle(effects: Effects, node: str, facts: ClusterFacts) -> Effects:
    """The effects with those of a program that may reboot a node."""
    stopped = {name for name, nodes in facts.instances.items() if nodes[:1] == (node,)}
    return effects._replace(powered=effects.powered | {node}, stopped=effects.stopped | stopped)


#: Parameters that name a node which gets an instance, or a copy of its disks.
_TARGETS: Final = ("target_node", "remote_node", "pnode", "snode")


class _EffectsSoFar:
    """The effects so far, and the roles and places as they are then."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.offline = set(facts.offline)
        self.primaries = {name: set(nodes[:1]) for name, nodes in facts.instances.items()}
        self.found: dict[str, set[str]] = {name: set() for name in Effects._fields}

    def node(self, operation: Mapping[str, Any]) -> str:
        """The node an operation names."""
        return _resolved(operation.get("node_name"), self.facts.nodes)

    def instance(self, operation: Mapping[str, Any]) -> str:
        """The instance an operation names."""
        return _resolved(operation.get("instance_name"), self.facts.instances)

    def find_targets(self, operation: Mapping[str, Any]) -> None:
        """Nodes that an operation names by name or uuid to be used in addition."""
        nodes = self.facts.nodes
        uuids = {about[0]: name for name, about in nodes.items() if about}
        for key in _TARGETS:
            if isinstance(name := operation.get(key), str):
                self.found["targets"].add(_resolved(name, nodes))
            if uuid := operation.get(f"{key}_uuid"):
                self.found["targets"].add(uuids.get(uuid, str(uuid)))

    def instances_of(self, node: str) -> set[str]:
        """Instances whose primary is, or may be by then, this node."""
        return {name for name, nodes in self.primaries.items() if node in nodes}

    def leave(self, name: str, target: object = None) -> None:
        """An instance may be started on another node."""
        self.found["moved"].add(name)
        primaries, nodes = self.primaries.get(name, set()), self.facts.instances.get(name, ())
        if self.offline & primaries:
            self.found["abandoned"].add(name)
        new = {_resolved(target, self.facts.nodes)} if target else set(nodes)
        self.primaries[name] = primaries | new

    def power(self, node: str) -> None:
        """A node, and what runs on it, may lose its power."""
        self.found["powered"].add(node)
        self.found["stopped"] |= self.instances_of(node)


def _resolved(given: object, known: Iterable[str]) -> str:
    """The one name that a given text can mean, as Ganeti reads it; else the text itself."""
    text = str(given)
    if text in known:
        return text
    word = text.lower()
    found = [name for name in known if name.lower() == word or name.lower().startswith(f"{word}.")]
    return found[0] if len(found) == 1 else text


_Rule = Callable[[_EffectsSoFar, Mapping[str, Any]], None]


def _does(*fields: str) -> _Rule:
    """The instance that is named is one of these."""

    def rule(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
        for field in fields:
            work.found[field].add(work.instance(operation))

    return rule


def _if(parameter: str, rule: _Rule, *, default: object = False) -> _Rule:
    """A rule that holds where a parameter is set to something."""

    def conditional(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
        if operation.get(parameter, default):
            rule(work, operation)

    return conditional


def _whole(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    work.found["whole"].add(str(operation["OP_ID"]))


def _moved(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    work.leave(work.instance(operation), operation.get("target_node"))


def _created(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    """An existing name again: under it a copy may be started that runs elsewhere already."""
    name = work.instance(operation)
    work.found["created"].add(name)
    if name in work.facts.instances:
        work.leave(name)


def _all_created(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    for one in operation.get("instances") or ():
        _created(work, one)


def _recreated(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    """With other nodes its primary changes."""
    given = operation.get("nodes") or operation.get("node_uuids") or ()
    work.found["targets"].update(_listed("nodes", work, operation) if given else ())
    if any(operation.get(one) for one in ("nodes", "node_uuids", "iallocator")):
        work.leave(work.instance(operation))


def _changed(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    """``OP_INSTANCE_SET_PARAMS``."""
    name, found = work.instance(operation), work.found
    if new := operation.get("pnode") or operation.get("pnode_uuid"):
        work.leave(name, new)
    if operation.get("offline") or operation.get("disk_template"):
        found["stopped"].add(name)
    if operation.get("disk_template"):
        found["degraded"].add(name)
    changes = operation.get("disks") or []
    if any(isinstance(one, list | tuple) and one and one[0] in _LOSING for one in changes):
        found["erased"].add(name)


#: Changes of an instance's disks after which it has one fewer.
_LOSING: Final = ("remove", "detach")


def _node_role(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    """``OP_NODE_SET_PARAMS``: flags that are set, flags that are unset, and an address."""
    name, found = work.node(operation), work.found
    lost = [one for one in ("drained", "offline") if operation.get(one)]
    lost += [one for one in _CANDIDATE if operation.get(one) is False]
    if lost:
        found["ineligible"].add(name)
    if lost or operation.get("vm_capable") is False or operation.get("secondary_ip"):
        found["demoted"].add(name)
    if operation.get("offline"):
        work.offline.add(name)
    elif operation.get("offline") is False:
        work.offline.discard(name)


_CANDIDATE: Final = ("master_candidate", "master_capable")


def _node_out(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    work.found["demoted"].add(work.node(operation))
    work.found["ineligible"].add(work.node(operation))


def _cycled(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    work.power(work.node(operation))


def _listed(key: str, work: _EffectsSoFar, operation: Mapping[str, Any]) -> list[str]:
    """The nodes of a list of names, and one of uuids; without any Ganeti takes all nodes."""
    nodes = work.facts.nodes
    uuids = {about[0]: name for name, about in nodes.items() if about}
    given = [_resolved(one, nodes) for one in operation.get(key) or ()]
    given += [uuids.get(one, str(one)) for one in operation.get("node_uuids") or ()]
    return given or list(nodes)


def _out_of_band(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    if operation.get("command") not in ("power-on", "power-status", "health"):
        for name in _listed("node_names", work, operation):
            work.power(name)


def _restricted(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    """A program of the admin, of which nothing is known."""
    for name in _listed("nodes", work, operation):
        work.power(name)


def _node_left(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    """``OP_NODE_EVACUATE`` and ``OP_NODE_MIGRATE``."""
    node = work.node(operation)
    if operation.get("mode") != "secondary-only":
        for name in work.instances_of(node):
            work.leave(name, operation.get("target_node"))
            work.found["stopped"].add(name)
    if operation["OP_ID"] == "OP_NODE_EVACUATE":
        with_it = {name for name, nodes in work.facts.instances.items() if node in nodes}
        work.found["degraded"] |= with_it


def _group_left(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    group = operation.get("group_name")
    members = {name for name, about in work.facts.nodes.items() if group in about[1:]}
    for name, nodes in work.facts.instances.items():
        if members.intersection(nodes):
            work.leave(name)
            work.found["stopped"].add(name)
            work.found["degraded"].add(name)


def _storage(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    node = work.node(operation)
    work.found["cleared"].add(node)
    if operation.get("ignore_consistency"):
        with_it = {name for name, nodes in work.facts.instances.items() if node in nodes}
        work.found["unchecked"] |= with_it


def _tags(work: _EffectsSoFar, operation: Mapping[str, Any]) -> None:
    sign = "+" if operation["OP_ID"] == SET_TAGS else "-"
    work.found["tagged"] |= {f"{sign}{tag}" for tag in operation.get("tags") or ()}


_NOTHING: Final[tuple[_Rule, ...]] = ()
_WHOLE: Final[tuple[_Rule, ...]] = (_whole,)
_STOPPED: Final = _does("stopped")
_UNCHECKED: Final = _if("ignore_consistency", _does("unchecked"))

#: Opcode -> what it does, in this order.
TABLE: Final[Mapping[str, tuple[_Rule, ...]]] = MappingProxyType(
    {
        "OP_BACKUP_EXPORT": (
            _if("shutdown", _STOPPED, default=True),
            _if("zero_free_space", _STOPPED),
            _if("remove_instance", _does("stopped", "erased", "removed")),
        ),
        "OP_BACKUP_PREPARE": _NOTHING,
        "OP_BACKUP_REMOVE": (_does("erased"),),
        "OP_CLUSTER_ACTIVATE_MASTER_IP": _NOTHING,
        "OP_CLUSTER_CONFIG_QUERY": _NOTHING,
        "OP_CLUSTER_DEACTIVATE_MASTER_IP": _WHOLE,
        "OP_CLUSTER_DESTROY": _WHOLE,
        "OP_CLUSTER_POST_INIT": _WHOLE,
        "OP_CLUSTER_QUERY": _NOTHING,
        "OP_CLUSTER_REDIST_CONF": _NOTHING,
        "OP_CLUSTER_RENAME": _WHOLE,
        "OP_CLUSTER_RENEW_CRYPTO": _WHOLE,
        "OP_CLUSTER_REPAIR_DISK_SIZES": _NOTHING,
        "OP_CLUSTER_SET_PARAMS": _WHOLE,
        "OP_CLUSTER_VERIFY": _NOTHING,
        "OP_CLUSTER_VERIFY_CONFIG": _NOTHING,
        "OP_CLUSTER_VERIFY_DISKS": _NOTHING,
        "OP_CLUSTER_VERIFY_GROUP": _NOTHING,
        "OP_EXT_STORAGE_DIAGNOSE": _NOTHING,
        "OP_GROUP_ADD": _NOTHING,
        "OP_GROUP_ASSIGN_NODES": _WHOLE,
        "OP_GROUP_EVACUATE": (_group_left,),
        "OP_GROUP_REMOVE": _WHOLE,
        "OP_GROUP_RENAME": _WHOLE,
        "OP_GROUP_SET_PARAMS": _WHOLE,
        "OP_GROUP_VERIFY_DISKS": _NOTHING,
        "OP_INSTANCE_ACTIVATE_DISKS": _NOTHING,
        "OP_INSTANCE_CHANGE_GROUP": (_moved, _does("stopped", "degraded")),
        "OP_INSTANCE_CONSOLE": _NOTHING,
        "OP_INSTANCE_CREATE": (_created,),
        "OP_INSTANCE_DEACTIVATE_DISKS": (_STOPPED,),
        "OP_INSTANCE_FAILOVER": (_moved, _STOPPED, _UNCHECKED),
        "OP_INSTANCE_GROW_DISK": _NOTHING,
        "OP_INSTANCE_MIGRATE": (_moved, _if("allow_failover", _STOPPED)),
        "OP_INSTANCE_MOVE": (_moved, _STOPPED, _UNCHECKED),
        "OP_INSTANCE_MULTI_ALLOC": (_all_created,),
        "OP_INSTANCE_QUERY_DATA": _NOTHING,
        "OP_INSTANCE_REBOOT": (_does("stopped", "started"),),
        "OP_INSTANCE_RECREATE_DISKS": (_recreated, _does("stopped", "erased")),
        "OP_INSTANCE_REINSTALL": (_does("stopped", "erased"),),
        # Its name is free then, and what runs on an offline node is known to nothing any more.
        "OP_INSTANCE_REMOVE": (_moved, _does("stopped", "erased", "removed")),
        "OP_INSTANCE_RENAME": (_STOPPED,),
        "OP_INSTANCE_REPLACE_DISKS": (_does("degraded"),),
        "OP_INSTANCE_SET_PARAMS": (_changed,),
        "OP_INSTANCE_SHUTDOWN": (_STOPPED,),
        "OP_INSTANCE_STARTUP": (_does("started"),),
        "OP_NETWORK_ADD": _NOTHING,
        "OP_NETWORK_CONNECT": _NOTHING,
        "OP_NETWORK_DISCONNECT": _NOTHING,
        "OP_NETWORK_REMOVE": _NOTHING,
        "OP_NETWORK_RENAME": _NOTHING,
        "OP_NETWORK_SET_PARAMS": _NOTHING,
        "OP_NODE_ADD": (_if("readd", _node_out),),
        "OP_NODE_EVACUATE": (_node_left,),
        "OP_NODE_MIGRATE": (_node_left,),
        "OP_NODE_MODIFY_STORAGE": _NOTHING,
        "OP_NODE_POWERCYCLE": (_cycled,),
        "OP_NODE_QUERYVOLS": _NOTHING,
        "OP_NODE_QUERY_STORAGE": _NOTHING,
        "OP_NODE_REMOVE": (_node_out,),
        SET_NODE_PARAMS: (_node_role,),
        "OP_OOB_COMMAND": (_out_of_band,),
        "OP_OS_DIAGNOSE": _NOTHING,
        "OP_QUERY": _NOTHING,
        "OP_QUERY_FIELDS": _NOTHING,
        "OP_REPAIR_NODE_STORAGE": (_storage,),
        "OP_RESTRICTED_COMMAND": (_restricted,),
        REMOVE_TAGS: (_tags,),
        "OP_TAGS_GET": _NOTHING,
        "OP_TAGS_SEARCH": _NOTHING,
        SET_TAGS: (_tags,),
        "OP_TEST_ALLOCATOR": _NOTHING,
        "OP_TEST_DELAY": _NOTHING,
        # It may submit any job.
        "OP_TEST_DUMMY": _WHOLE,
        "OP_TEST_JQUEUE": _NOTHING,
        "OP_TEST_OS_PARAMS": _NOTHING,
    }
)
