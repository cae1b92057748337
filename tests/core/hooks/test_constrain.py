"""A site's bans: respected by every request type, counted and explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganeti_steward.core.model.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Message, Site

BACKUP = """
@hookimpl
def steward_constrain(cluster, instance):
    if not any(tag.startswith("backup:") for tag in instance.tags):
        return
    for node in cluster.nodes:
        if "storage:big" not in node.tags:
            for role in ROLES:
                yield Ban(node.name, role, "not backup storage", "has no tag storage:big")
"""


@pytest.fixture
def backup(site: Site) -> Site:
    site.plugin("backup", BACKUP)
    site.configure("backup")
    return site


def tag(message: Message, *nodes: str) -> None:
    for node in nodes:
        message["nodes"][node]["tags"].append("storage:big")


@pytest.mark.parametrize(
    "name", ["allocate-diskless", "allocate-ext", "allocate-plain-with-spindles"]
)
def test_one_node(backup: Site, capture: Capture, name: str) -> None:
    message = capture(name)
    free = backup.place(message)
    other = next(node for node in sorted(message["nodes"]) if node != free[0])
    message["request"]["tags"] = ["backup:daily"]
    tag(message, other)
    banned = backup.place(message)
    assert banned == [other]


def test_two_nodes(backup: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    free = backup.place(message)
    assert set(free) == {"node1.lab", "node2.lab"}
    message["request"]["tags"] = ["backup:daily"]
    tag(message, "node4.lab", "node5.lab")
    banned = backup.place(message)
    assert set(banned) == {"node4.lab", "node5.lab"}


def test_one_role_only(site: Site, capture: Capture) -> None:
    site.plugin(
        "keep",
        """
        @hookimpl
        def steward_constrain(cluster):
            return [Ban(node.name, PRIMARY, "no primaries", "is kept for copies")
                    for node in cluster.nodes if node.name != "node5.lab"]
        """,
    )
    site.configure("keep")
    primary, secondary = site.place(capture("allocate-drbd"))
    assert primary == "node5.lab"
    assert secondary != "node5.lab"


def test_some_primaries_without_a_secondary(site: Site, capture: Capture) -> None:
    site.plugin(
        "none",
        """
        @hookimpl
        def steward_constrain(cluster):
            return [Ban(node.name, SECONDARY, "no copies", "keeps none") for node in cluster.nodes]
        """,
    )
    site.configure("none")
    message = capture("allocate-drbd")
    message["request"]["group_name"] = "rack2"
    assert "no secondary goes with node4.lab or 2 more: 3 no copies" in site.refused(message)


def test_only_tagged_instances(backup: Site, capture: Capture) -> None:
    assert backup.place(capture("allocate-drbd"))


def test_relocate_drbd(backup: Site, capture: Capture) -> None:
    message = capture("relocate-drbd")
    assert backup.place(message)
    message["instances"][message["request"]["name"]]["tags"] = ["backup:daily"]
    refusal = backup.refused(message)
    assert "0/1 nodes fit: 1 not backup storage" in refusal
    tag(message, "node1.lab")
    allowed = backup.place(message)
    assert allowed == ["node1.lab"]


def test_relocate_external(backup: Site, capture: Capture) -> None:
    message = capture("relocate-ext")
    free = backup.place(message)
    request = message["request"]
    group = message["nodes"][free[0]]["group"]
    left = {*free, *request["relocate_from"]}
    mates = [name for name, node in message["nodes"].items() if node["group"] == group]
    other = next(name for name in mates if name not in left)
    message["instances"][request["name"]]["tags"] = ["backup:daily"]
    tag(message, other)
    banned = backup.place(message)
    assert banned == [other]


def test_relocate_leaving_an_offline_node(backup: Site, capture: Capture) -> None:
    """Soft rules are dropped there; a site's own rule is not."""
    message = capture("relocate-drbd")
    message["nodes"][message["request"]["relocate_from"][0]]["offline"] = True
    assert backup.place(message)
    message["instances"][message["request"]["name"]]["tags"] = ["backup:daily"]
    assert backup.refused(message)


def test_ignored_soft_errors(backup: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["request"]["tags"] = ["backup:daily"]
    refusal = backup.refused(message, "--ignore-soft-errors")
    assert "3 not backup storage" in refusal


def test_multi_allocate(backup: Site, capture: Capture) -> None:
    message = capture("multi-allocate-two")
    first, second = message["request"]["instances"]
    first["tags"] = ["backup:daily"]
    tag(message, "node6.lab")
    placed, failed = backup.place(message)
    assert failed == []
    assert [first["name"], ["node6.lab"]] in placed
    assert len(placed) == 2

    message["nodes"]["node6.lab"]["tags"] = []
    outcome = backup.ask(message, "--partial-batches")
    assert isinstance(outcome, Answer)
    placed, failed = outcome.result
    assert failed == [first["name"]]
    assert [name for name, _ in placed] == [second["name"]]
    assert "3 not backup storage" in outcome.info


def test_allocate_secondary(backup: Site, capture: Capture) -> None:
    message = capture("allocate-secondary-plain-to-drbd")
    free = backup.place(message)
    assert free == "node1.lab"
    message["instances"][message["request"]["name"]]["tags"] = ["backup:daily"]
    refusal = backup.refused(message)
    assert "0/2 nodes fit: 2 not backup storage" in refusal
    tag(message, "node2.lab")
    banned = backup.place(message)
    assert banned == "node2.lab"


def test_counted_beside_other_reasons(backup: Site, capture: Capture) -> None:
    message = capture("allocate-ext")
    message["request"].update(tags=["backup:daily"], group_name="default")
    tag(message, "node1.lab")
    message["nodes"]["node1.lab"]["drained"] = True
    refusal = backup.refused(message)
    assert refusal.startswith("0/3 nodes fit: 2 not backup storage, 1 drained")


def test_explained(backup: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["request"]["tags"] = ["backup:daily"]
    tag(message, "node1.lab", "node2.lab")
    outcome = backup.ask(message, explain=True)
    assert isinstance(outcome, Answer)
    groups = {group.name: group for group in outcome.explanations[0].groups}
    verdicts = {(one.node, one.role): one for one in groups["default"].nodes}
    assert verdicts["node1.lab", "primary"].reason == ""
    for role in ("primary", "secondary"):
        verdict = verdicts["node3.lab", role]
        assert (verdict.rule, verdict.reason) == ("not backup storage", "has no tag storage:big")
    assert "3 not backup storage" in groups["rack2"].summary


def test_several_plugins_add_up(backup: Site, capture: Capture) -> None:
    backup.plugin(
        "quiet",
        """
        @hookimpl
        def steward_constrain(instance):
            return [Ban("node2.lab", role, "quiet node", "is being listened to") for role in ROLES]
        """,
    )
    backup.configure("backup", "quiet")
    message = capture("allocate-drbd")
    message["request"].update(tags=["backup:daily"], group_name="default")
    tag(message, "node1.lab", "node2.lab")
    refusal = backup.refused(message)
    assert "1/3 nodes fit as primary (1 not backup storage, 1 quiet node" in refusal
    tag(message, "node3.lab")
    outcome = backup.place(message)
    assert set(outcome) == {"node1.lab", "node3.lab"}


FROZEN = """
@hookimpl
def steward_constrain(instance):
    return [NoPlace(f"{instance.name} is frozen")] if "frozen" in instance.tags else []
"""


SENT = """
@hookimpl
def steward_constrain(request, cluster, instance):
    {condition}
    for node in cluster.nodes:
        if node.master_candidate:
            for role in ROLES:
                yield Ban(node.name, role, type(request).__name__, "is a master candidate")
"""


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        ("", True),
        ("if instance.os != 'noop': return", True),
        ("if instance.os != 'debian': return", False),
        ("if instance.hypervisor != 'fake': return", True),
        ("if instance.nics[0].mac != 'aa:00:00:8a:42:f8': return", True),
        ("if instance.nics[0].network: return", True),
        ("if instance.disk_details[0].volume_group != 'labvg': return", True),
        ("if instance.disk_details[0].mode != 'ro': return", False),
        ("if request.instance is not instance: return", True),
        ("if cluster.nodes[0].primary_ip != '10.77.0.11': return", True),
    ],
)
def test_rules_by_what_ganeti_sends(
    site: Site, capture: Capture, condition: str, applies: bool
) -> None:
    site.plugin("sent", SENT.format(condition=condition))
    site.configure("sent")
    message = capture("allocate-drbd")
    for node in message["nodes"].values():
        node["master_candidate"] = True
    message["nodes"]["node4.lab"]["master_candidate"] = False
    message["nodes"]["node5.lab"]["master_candidate"] = False
    assert ({"node4.lab", "node5.lab"} == set(site.place(message))) == applies


def test_rules_by_the_request(site: Site, capture: Capture) -> None:
    site.plugin("sent", SENT.format(condition="if type(request).__name__ == 'Relocate': return"))
    site.configure("sent")
    message = capture("relocate-drbd")
    free = site.place(message)
    for node in message["nodes"].values():
        node["master_candidate"] = True
    assert site.place(message) == free
    message = capture("allocate-secondary-plain-to-drbd")
    for node in message["nodes"].values():
        node["master_candidate"] = True
    assert "0/2 nodes fit: 2 AllocateSecondary" in site.refused(message)


def test_no_place_at_all(site: Site, capture: Capture) -> None:
    """Only the reason is shown; of several only that instance fails."""
    site.plugin("frozen", "from ganeti_steward.core.model.site_rules import NoPlace\n" + FROZEN)
    site.configure("frozen")
    for name in ("allocate-drbd", "relocate-drbd", "allocate-secondary-plain-to-drbd"):
        message = capture(name)
        assert site.place(message)
        wanted = message["request"]["name"]
        message["request"]["tags"] = ["frozen"]
        message["instances"].get(wanted, {})["tags"] = ["frozen"]
        refusal = site.refused(message)
        assert refusal == f"{wanted} is frozen"
    message = capture("node-evacuate-secondary-drbd")
    first, *others = message["request"]["instances"]
    message["instances"][first]["tags"] = ["frozen"]
    moved, failed, _ = site.place(message)
    assert failed == [[first, f"{first} is frozen"]]
    assert sorted(name for name, _, _ in moved) == sorted(others)
    message = capture("change-group-drbd")
    (name,) = message["request"]["instances"]
    message["instances"][name]["tags"] = ["frozen"]
    assert site.place(message)[1] == [[name, f"{name} is frozen"]]


def test_no_place_without_a_reason(site: Site, capture: Capture) -> None:
    silent = "@hookimpl\ndef steward_constrain():\n    return [NoPlace('')]\n"
    site.plugin("silent", "from ganeti_steward.core.model.site_rules import NoPlace\n" + silent)
    site.configure("silent")
    refusal = site.refused(capture("allocate-drbd"))
    assert refusal == "plugin silent: the reason for no place is '', not a text"


@pytest.mark.parametrize("nothing", ["return", "return []", "return ()", "yield from ()"])
def test_nothing_to_say(site: Site, capture: Capture, nothing: str) -> None:
    site.plugin("silent", f"@hookimpl\ndef steward_constrain(cluster):\n    {nothing}\n")
    site.configure("silent")
    with_plugin = site.ask(capture("allocate-drbd"))
    site.configure()
    assert site.ask(capture("allocate-drbd")) == with_plugin


def test_real_process(backup: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["request"]["tags"] = ["backup:daily"]
    answer = backup.run(message)
    assert answer["success"] is False
    assert answer["result"] == []
    assert answer["info"].startswith("Request failed: ")
    assert "3 not backup storage" in answer["info"]
    tag(message, "node4.lab", "node5.lab")
    assert set(backup.run(message)["result"]) == {"node4.lab", "node5.lab"}
