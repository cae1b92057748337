"""``gnt-instance recreate-disks -I``: an allocation under the name of an instance."""

from __future__ import annotations

from ask import steward
from clusters import generate


def test_an_existing_instance_stays_in_its_group_and_is_not_counted_twice() -> None:
    message = generate(
        "--nodes=6", "--groups=2", "--mix=drbd=1", "--per-node=3", "--request=allocate"
    )
    name, instance = next(iter(message["instances"].items()))
    home = message["nodes"][instance["nodes"][0]]["group"]
    body = message["request"]
    for key in ("memory", "vcpus", "disks", "disk_space_total", "spindle_use", "tags", "nics"):
        body[key] = instance[key]
    body["name"] = name
    group = message["nodegroups"][home]
    for policy in ("preferred", "last_resort", "unallocable"):
        group["alloc_policy"] = policy
        answer = steward(message)
        assert answer["success"], answer["info"]
        assert {message["nodes"][node]["group"] for node in answer["result"]} == {home}
    # Only its own nodes have room, and only once it has left them.
    for node_name, node in message["nodes"].items():
        if node["group"] == home:
            own = node_name in instance["nodes"]
            node["free_disk"] = 1 if own else 0
            if not own:
                node["free_memory"] = 0
    answer = steward(message, "--no-capacity-checks")
    assert sorted(answer["result"]) == sorted(instance["nodes"]), answer["info"]
    body["name"] = "another.example.com"
    group["alloc_policy"] = "preferred"
    body["group_name"] = group["name"]
    assert not steward(message, "--no-capacity-checks")["success"]
