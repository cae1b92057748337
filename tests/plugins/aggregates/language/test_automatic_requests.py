"""What an instance requests by its OS, hypervisor or disk template."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from message_tags import ask_for, put

if TYPE_CHECKING:
    from front import Front
    from sites import Capture, Message, Site

WINDOWS = '[aggregates.ask]\nos = {"windows-*" = "in:license:windows"}\n'


def licensed(capture: Capture, name: str = "allocate-diskless") -> Message:
    message = capture(name)
    message["cluster_tags"].append("steward:default-forbidden-prefix:license:")
    put(message, "license:windows", "node2.lab", "node5.lab")
    return message


def test_a_forgotten_tag(site: Site, capture: Capture) -> None:
    """It puts Windows on no host without a licence, nor Linux on one with it."""
    site.configure(more=WINDOWS)
    message = licensed(capture)
    assert site.place(message)[0] not in ("node2.lab", "node5.lab")
    message["request"]["os"] = "windows-2022+core"
    assert site.place(message)[0] in ("node2.lab", "node5.lab")
    message["nodes"]["node2.lab"]["drained"] = True
    message["nodes"]["node5.lab"]["drained"] = True
    assert "2 not in aggregate license:windows" in site.refused(message)


def test_as_a_tag_of_the_cluster(site: Site, capture: Capture) -> None:
    message = licensed(capture)
    message["cluster_tags"].append("steward:ask.os:windows-*+in:license:windows+license:sql")
    message["request"]["os"] = "windows-2022"
    assert site.place(message)[0] in ("node2.lab", "node5.lab")


@pytest.mark.parametrize(
    ("rule", "applies"),
    [
        ('hypervisor = {fake = "ssd"}', True),
        ('hypervisor = {kvm = "ssd"}', False),
        ('template = {"disk*" = ["ssd", "!slow"]}', True),
        ('template = {drbd = "ssd"}', False),
        ('os = {noop = "ssd"}', True),
    ],
)
def test_each_property(site: Site, capture: Capture, rule: str, applies: bool) -> None:
    site.configure(more=f"[aggregates.ask]\n{rule}\n")
    message = capture("allocate-diskless")
    put(message, "ssd", "node3.lab", "node6.lab")
    put(message, "slow", "node6.lab")
    for name, node in message["nodes"].items():
        node["drained"] = name not in ("node1.lab", "node3.lab")
    put(message, "slow", "node1.lab")
    free = site.place(message)
    message["nodes"]["node3.lab"]["drained"] = True
    if applies:
        assert free == ["node3.lab"]
        assert "2 drained, 1 " in site.refused(message)
    else:
        assert site.place(message) == ["node1.lab"]


def test_an_instance_that_is_there_already(site: Site, capture: Capture) -> None:
    """Ganeti sends the OS of every instance, and only its name with a relocation."""
    site.configure(more=WINDOWS)
    message = licensed(capture, "relocate-drbd")
    name = message["request"]["name"]
    message["instances"][name]["os"] = "windows-10"
    refusal = site.refused(message)
    assert "not in aggregate license:windows" in refusal
    put(message, "license:windows", *message["nodes"])
    assert site.place(message)


def test_an_evacuation(site: Site, capture: Capture) -> None:
    site.configure(more=WINDOWS)
    message = licensed(capture, "node-evacuate-secondary-drbd")
    name = message["request"]["instances"][0]
    message["instances"][name]["os"] = "windows-10"
    for node in message["nodes"].values():
        node["tags"] = []
    _, failed, _ = site.place(message)
    assert "not in aggregate license:windows (no members)" in dict(failed)[name]


def test_what_is_not_known_closes(site: Site, capture: Capture) -> None:
    site.configure(more=WINDOWS)
    message = licensed(capture)
    message["request"]["os"] = None
    name = message["request"]["name"]
    assert site.refused(message) == (
        f"instance {name}: its OS is not known, and what it requests depends on that "
        '(aggregates.ask.os; the pattern "" there is for such instances)'
    )
    site.configure(more=WINDOWS.replace("}", ', "" = []}'))
    assert site.place(message)[0] not in ("node2.lab", "node5.lab")
    ask_for(message, "steward:member-of:license:windows")
    assert site.place(message)[0] in ("node2.lab", "node5.lab")


def test_a_source_without_the_os_does_not_read_as_balanced(front: Front, capture: Capture) -> None:
    front.configure(WINDOWS)
    message = licensed(capture, "relocate-drbd")
    for instance in message["instances"].values():
        del instance["os"]
    done = front("balance", "--file", front.message(message))
    assert (done.status, done.out) == (1, "")
    assert "its OS is not known" in done.err


def test_an_unknown_property(front: Front, capture: Capture) -> None:
    front.configure('[aggregates.ask]\noses = {"a" = "b"}\n')
    done = front("aggregate", "list", "--file", front.message(capture("allocate-diskless")))
    assert "aggregates.ask: 'oses': no such key (known: os, hypervisor, template)" in done.err
