"""What people do: tags, records, roles of nodes, and instances of theirs."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_DNS, uuid5

from fault_world.agents import Agent
from fault_world.causes.others import submit
from fault_world.checks.texts import is_stamped
from fault_world.clock import SECOND
from fault_world.daemon import KEY
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, PAUSE
from ganeti_steward.plugins.filters.rule_notes import record_rule
from ganeti_steward.plugins.maintenance.edges.record import Stamp, open_record, sign_record
from ganeti_steward.plugins.maintenance.edges.store import resumed
from ganeti_steward.plugins.model.incident import (
    DONE_TAG,
    MAINTENANCE,
    OPT_OUT_TAG,
    PAUSE_TAG,
    READY_TAG,
    STOPPED_TAG,
    Incident,
    Maintenance,
)
from ganeti_steward.plugins.model.task import (
    AFTER,
    AROUND,
    BEFORE,
    MASTER_AFTER,
    MASTER_BEFORE,
)
from ganeti_steward.plugins.model.works import BY_ADMIN

if TYPE_CHECKING:
    from fault_world.faults import Fault
    from fault_world.world import World

Row = dict[str, Any]


def _node(world: World, name: str) -> Row | None:
    return next((row for row in world.ganeti.nodes if row["name"] == name), None)


def tag_set(world: World, fault: Fault) -> None:
    """A tag of a node; ``detail``: the tag, or with a colon its beginning, for each incident."""
    node, tag = _node(world, fault.subject), fault.detail
    if node is None:
        return
    uuids = [uuid for uuid, one in world.records() if one.get("node_name") == fault.subject]
    if tag == STOPPED_TAG and uuids and not node["master"]:
        # People switch a node off before they say that it is.
        world.ganeti.power_off(fault.subject)
    elif tag == STOPPED_TAG:
        return
    if tag.endswith(":"):
        node["tags"] += [f"{tag}{uuid}" for uuid in uuids]
    else:
        node["tags"].append(tag)
        world.clock.after(600, partial(_untag, node, tag))
    world.ganeti.changed()


def _untag(node: Row, tag: str) -> None:
    if tag in node["tags"]:
        node["tags"].remove(tag)


def results_removed(world: World, fault: Fault) -> None:
    """The tags that say how repairs of a node ended are removed: they are acknowledged."""
    if node := _node(world, fault.subject):
        node["tags"][:] = [tag for tag in node["tags"] if not tag.startswith("maintd:repair")]
        world.ganeti.changed()


def record_deleted(world: World, fault: Fault) -> None:
    """A record of an incident is deleted."""
    if records := world.records():
        world.luxid.delete_filter(world.draw("deleted").choice(records)[0])


def record_restored(world: World, fault: Fault) -> None:
    """A record is replaced by one of before, or is there again, by a user of RAPI who kept it.

    ``detail``: whether one of a maintenance is preferred.
    """
    random, kept = world.draw("restored"), world.checks.foreign.versions
    known = [uuid for uuid in sorted(kept) if len(kept[uuid]) > (uuid in world.luxid.filters)]
    requested = [uuid for uuid in known if uuid in world.checks.requested]
    if known:
        uuid = random.choice(requested if requested and fault.detail else known)
        there = uuid in world.luxid.filters
        _put(world, random.choice(kept[uuid][:-1] if there else kept[uuid]))
        world.checks.foreign.changed(uuid)
        world.checks.deleted.add(uuid)


def _put(world: World, rule: Row, **changed: Any) -> None:
    """A user of RAPI writes a rule; luxid adds its own entry to the reason trail."""
    row = rule | changed
    fields = (row["uuid"], row["priority"], row["predicates"], row["action"])
    world.luxid.replace_filter(*fields, deepcopy(row["reason_trail"]))


def record_pauses(world: World, fault: Fault) -> None:
    """The rule of a record holds all jobs, with the text that a daemon has signed."""
    if records := world.records():
        rule = world.luxid.filters[world.draw("pauses").choice(records)[0]]
        _put(world, rule, action=PAUSE, predicates=[])
        world.checks.foreign.acts(rule["uuid"])
        world.checks.deleted.add(rule["uuid"])


def records_confirmed(world: World) -> None:
    """Root confirms records that are the latest, and deletes those that others have put back.

    A record that holds all jobs is deleted as well, where no daemon has written it.
    """
    for uuid, _ in world.records():
        rule, kept = world.luxid.filters[uuid], world.checks.foreign.versions.get(uuid, [])
        if is_stamped(rule) and rule["action"] == CONTINUE:
            continue
        text = rule["reason_trail"][0][1]
        latest = kept and kept[-1]["reason_trail"][0][1] == text
        if not latest or uuid in world.checks.deleted:
            world.luxid.delete_filter(uuid)
            continue
        found = open_record(uuid, text, KEY)
        stamp = found.stamp.next(world.luxid.queue.last)
        incident = resumed(found.incident, world.clock_of(world.ganeti.master))
        _write(world, sign_record(incident, stamp, KEY).text, uuid)


def _write(world: World, text: str, uuid: str) -> None:
    """Root writes a signed record."""
    rule = record_rule(uuid, text, world.clock_of(world.ganeti.master))
    trail = [list(reason) for reason in rule.reasons]
    predicates = [list(one) for one in rule.predicates]
    world.luxid.replace_filter(uuid, rule.priority, predicates, rule.action, trail)


def record_edited(world: World, fault: Fault) -> None:
    """A record is changed by hand."""
    if records := world.records():
        uuid, _ = world.draw("edited").choice(records)
        reason = world.luxid.filters[uuid]["reason_trail"][0]
        reason[1] = reason[1].replace("noted", "pending")
        world.checks.foreign.changed(uuid)
        world.checks.deleted.add(uuid)


def maintenance_requested(world: World, fault: Fault) -> None:
    """A person requests the maintenance of a node, and may reboot it once it is ready."""
    node, now = _node(world, fault.subject), world.clock_of(world.ganeti.master)
    request = _request(fault.detail, world.clock.now - int(fault.at * SECOND))
    if node is None or node["offline"] or _maintained(world, node["name"]):
        return
    if node["master"] and not request.with_master:
        return
    if "permitted" in fault.detail.split(","):
        world.ganeti.takes_over.update(row["name"] for row in world.ganeti.nodes)
        world.ganeti.takeover_may_fail = True
    uuid = str(uuid5(NAMESPACE_DNS, f"maintenance of {node['name']} at {fault.at}"))
    incident = Incident(
        uuid,
        node["uuid"],
        node["name"],
        canonical({"status": MAINTENANCE, "uuid": uuid}),
        MAINTENANCE,
        tag=f"{READY_TAG}{uuid}",
        first_seen=now,
        observed_since=now,
        changed=now,
        progressed=now,
        maintenance=request,
    )
    world.checks.requested.add(uuid)
    _write(world, sign_record(incident, Stamp(1, world.luxid.queue.last), KEY).text, uuid)
    world.checks.foreign.kept(world.luxid.filters[uuid])
    if request.work == BY_ADMIN:
        world.clock.after(60, partial(_work, world, uuid, fault))


#: Words before a colon of what else is requested; the last two are followed by seconds.
_NAMED: Final = (*AROUND, "by", "takes")


def _request(detail: str, start: int) -> Maintenance:
    """What is requested: a choice, and after commas what else there is.

    ``start``: of the world, ns since the epoch; a deadline is as many seconds after it.
    """
    choice, *words = detail.split(",")
    pairs = (word.partition(":") for word in words)
    named = {name: rest for name, colon, rest in pairs if colon and name in _NAMED}
    flags = ("full", "with-master", "permitted")
    work = [word for word in words if word not in flags and word.partition(":")[0] not in _NAMED]
    return Maintenance(
        choice,
        work=work[0] if work else BY_ADMIN,
        full="full" in words,
        before=named.get(BEFORE, ""),
        after=named.get(AFTER, ""),
        deadline=start + int(named["by"]) * SECOND if "by" in named else 0,
        expected=int(named.get("takes", 0)),
        master_before=named.get(MASTER_BEFORE, ""),
        master_after=named.get(MASTER_AFTER, ""),
        with_master="with-master" in words,
    )


def _maintained(world: World, node: str) -> bool:
    return any(
        one.get("maintenance") and one.get("node_name") == node for _, one in world.records()
    )


def _work(world: World, uuid: str, fault: Fault) -> None:
    """Wait for the node to be ready, and reboot it."""
    if not any(one == uuid for one, _ in world.records()):
        return
    if uuid not in world.checks.ready:
        world.clock.after(60, partial(_work, world, uuid, fault))
        return
    running = sorted(name for name, on in world.ganeti.runs.items() if fault.subject in on)
    world.checks.require("emptied", not running, f"{running} run on {fault.subject}")
    world.ganeti.power_off(fault.subject)
    world.clock.after(fault.lasts, partial(_worked, world, uuid, fault.subject))


def _worked(world: World, uuid: str, name: str) -> None:
    world.ganeti.power_on(name)
    if (node := _node(world, name)) and f"{DONE_TAG}{uuid}" not in node["tags"]:
        node["tags"].append(f"{DONE_TAG}{uuid}")
        world.ganeti.changed()


def paused(world: World, fault: Fault) -> None:
    """The cluster's tag that pauses maintenance."""
    tag = f"{PAUSE_TAG}works"
    world.ganeti.info["tags"].append(tag)
    world.clock.after(fault.lasts, partial(_untag, world.ganeti.info, tag))


def node_drained(world: World, fault: Fault) -> None:
    """A node is drained by hand."""
    node = _node(world, fault.subject)
    if node and not node["master"]:
        node.update(drained=True, master_candidate=False)
        world.ganeti.promote()
        world.ganeti.changed()


def node_given_up(world: World, fault: Fault) -> None:
    """A node is set offline by hand, with the word that nothing runs on it: it is switched off."""
    node = _node(world, fault.subject)
    if node and not node["master"]:
        world.ganeti.power_off(fault.subject)
        node.update(offline=True, drained=False, master_candidate=False)
        node["tags"].append(f"{STOPPED_TAG}{node['uuid']}")
        world.ganeti.promote()
        world.ganeti.changed()


def node_taken_back(world: World, fault: Fault) -> None:
    """A node is in service again."""
    node = _node(world, fault.subject)
    if node and fault.subject not in world.ganeti.off:
        node.update(drained=False, offline=False)
        world.ganeti.promote()
        world.ganeti.changed()


def node_added(world: World, fault: Fault) -> None:
    """A new node."""
    name = world.ganeti.add_node()
    world.agents[name] = Agent(world, name)
    world.add_disk(name)
    world.spread()


def node_removed(world: World, fault: Fault) -> None:
    """A node without instances leaves the cluster."""
    node = _node(world, fault.subject)
    if node and not node["master"] and not any(world.ganeti.on(fault.subject)):
        world.ganeti.nodes.remove(node)
        world.ganeti.changed()


def instance_moved(world: World, fault: Fault) -> None:
    """A drbd instance is migrated by a job of its owner."""
    ganeti, name = world.ganeti, fault.subject
    if ganeti.has_instance(name) and ganeti.instance(name)["snodes"]:
        op = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name}
        submit(world, [[op]])


def instance_removed(world: World, fault: Fault) -> None:
    """An instance is removed."""
    if world.ganeti.has_instance(fault.subject):
        world.ganeti.remove_instance(fault.subject)


def instance_stopped(world: World, fault: Fault) -> None:
    """An instance is shut down by its owner."""
    if world.ganeti.has_instance(fault.subject):
        world.ganeti.stop(fault.subject)
        world.ganeti.instance(fault.subject)["admin_state"] = "down"
        world.ganeti.changed()


def group_renamed(world: World, fault: Fault) -> None:
    """The node group has another name."""
    group = world.ganeti.groups[0]
    group["name"] = f"group-{int(fault.at)}"
    world.ganeti.changed()


def group_excluded(world: World, fault: Fault) -> None:
    """The daemon must do nothing to the node group."""
    _exclude(world, world.ganeti.groups[0], fault.lasts)


def instance_excluded(world: World, fault: Fault) -> None:
    """The daemon must do nothing to an instance."""
    if world.ganeti.has_instance(fault.subject):
        _exclude(world, world.ganeti.instance(fault.subject), fault.lasts)


def _exclude(world: World, row: Row, seconds: float) -> None:
    row["tags"].append(OPT_OUT_TAG)
    world.clock.after(seconds, partial(_untag, row, OPT_OUT_TAG))
    world.ganeti.changed()
