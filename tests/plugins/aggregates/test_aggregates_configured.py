"""The section ``[aggregates]`` declares the same as tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from message_tags import RACK2, ask_for, put

from ganeti_steward.core.commands.check_config import config_faults
from ganeti_steward.core.config.load import load_config

if TYPE_CHECKING:
    from sites import Capture, Site

CONFIGURED = """
[aggregates]
default-forbidden-prefixes = ["reservation:"]
required-prefixes = ["reservation:"]
unclaimable = ["reservation:free"]
[aggregates.groups]
rack2 = ["room2"]
[aggregates.nodes]
"node1.lab" = ["reservation:free"]
"node2.lab" = ["reservation:r1"]
[aggregates.units."node3.lab"]
numa0 = ["fast"]
[aggregates.pools]
p1 = ["room2"]
[aggregates.instances]
"strict.lab" = ["!in:room2,reservation:r1", "member_of_primary=reservation:r2"]
"""


def test_the_configuration_says_the_same(site: Site, capture: Capture) -> None:
    site.configure(more=CONFIGURED)
    message = capture("allocate-diskless")
    ask_for(message, "reservation:r1")
    assert site.place(message) == ["node2.lab"]
    ask_for(message, "steward:member-of:not:room2")
    assert site.place(message) == ["node3.lab"]
    ask_for(message, "steward:member-of:room2")
    assert set(site.place(message)) <= set(RACK2)
    ask_for(message, "reservation:free")
    assert "no instance may request" in site.refused(message)
    ask_for(message)
    message["request"]["name"] = "strict.lab"
    put(message, "reservation:r2", "node3.lab", "node4.lab")
    assert site.place(message) == ["node3.lab"]
    del message["nodes"]["node1.lab"]
    for name in [n for n, i in message["instances"].items() if "node1.lab" in i["nodes"]]:
        del message["instances"][name]
    note = "configuration aggregates.nodes.node1.lab: the cluster has no node1.lab"
    assert note in site.ask(message).info


def test_repetition_changes_nothing(site: Site, capture: Capture) -> None:
    """Aggregates 2: not in any list of the section."""
    more = """
    [aggregates]
    default-forbidden-prefixes = ["reservation:", "reservation:"]
    required-prefixes = ["reservation:", "reservation:"]
    unclaimable = ["reservation:free", "reservation:free"]
    [aggregates.groups]
    rack2 = ["room2", "room2"]
    [aggregates.nodes]
    "node2.lab" = ["reservation:r1", "reservation:r1"]
    [aggregates.instances]
    "strict.lab" = ["!room2", "!room2", "reservation:r1", "reservation:r1", "in:reservation:r1"]
    """
    site.configure(more=more)
    message = capture("allocate-diskless")
    message["request"]["name"] = "strict.lab"
    assert site.place(message) == ["node2.lab"]
    assert list(config_faults(load_config(str(site.config_file)))) == []


def test_faults_in_the_configuration_close_everything(site: Site, capture: Capture) -> None:
    site.configure(more=CONFIGURED.replace('["room2"]', '["room 2"]'))
    refusal = site.refused(capture("allocate-drbd"))
    assert (
        "configuration aggregates.groups.rack2: 'room 2': 'room 2' is not an aggregate name"
        in refusal
    )
    assert "configuration aggregates.pools.p1: 'room 2'" in refusal


def test_a_role_there_is_not_closes_everything(site: Site, capture: Capture) -> None:
    """As every fault of the configuration, and it is found without verdicts for the instance."""
    site.configure(more=CONFIGURED.replace("member_of_primary=", "member_of_prim="))
    refusal = site.refused(capture("allocate-drbd"))
    assert refusal == (
        "configuration aggregates.instances.strict.lab: 'member_of_prim=reservation:r2': "
        "unknown role 'prim' (known: primary, secondary, storage, unit)"
    )
    config = load_config(str(site.config_file))
    assert list(config_faults(config)) == [refusal.partition(" ")[2]]


def test_an_unclaimable_aggregate_is_reported(site: Site, capture: Capture) -> None:
    site.configure(more=CONFIGURED.replace("reservation:r2", "reservation:free"))
    message = capture("allocate-diskless")
    message["request"]["name"] = "strict.lab"
    ask_for(message, "steward:member-of:in:reservation:r1+reservation:free")
    text = "no instance may request aggregate reservation:free"
    assert site.refused(message) == (
        "configuration aggregates.instances.strict.lab: 'member_of_primary=reservation:free': "
        f"{text}; instance strict.lab: tag 'steward:member-of:in:reservation:r1+reservation:free': "
        f"{text}"
    )


def test_a_prefix_no_name_begins_with(site: Site, capture: Capture) -> None:
    site.configure(more='[aggregates]\nrequired-prefixes = ["a b", "in:"]\n')
    key, ending = "aggregates.required-prefixes", "(1 to 64 ASCII letters, digits and _ - . / @ :)"
    assert site.refused(capture("allocate-drbd")) == "; ".join(
        f"configuration {key}: {prefix!r}: no aggregate name can begin with {prefix!r} {ending}"
        for prefix in ("a b", "in:")
    )
