"""Who may request an aggregate: tags, names, and rules of the administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from message_tags import RESERVING, ask_for, put

from ganeti_steward.core.commands.check_config import config_faults
from ganeti_steward.core.config.load import load_config

if TYPE_CHECKING:
    from sites import Capture, Message, Site

ACME = "reservation:acme"


def reserved(capture: Capture, *tags: str) -> Message:
    message = capture("allocate-diskless")
    message["cluster_tags"] += [*RESERVING, *tags]
    put(message, ACME, "node2.lab")
    put(message, "reservation:other", "node3.lab")
    return message


def test_only_instances_with_the_tag(site: Site, capture: Capture) -> None:
    message = reserved(capture, "steward:entitled-tag:reservation:acme+owner:acme")
    name = message["request"]["name"]
    fault = "only instances with the tag owner:acme may request aggregate reservation:acme"
    for tag in (ACME, f"steward:member-of:{ACME}", f"steward:member-of:in:{ACME}+x"):
        for more in ((), ("owner:other",)):
            ask_for(message, tag, *more)
            assert site.refused(message) == f"instance {name}: tag '{tag}': {fault}"
        ask_for(message, tag, "owner:acme")
        assert site.place(message) == ["node2.lab"]
    # What forbids claims nothing, and nothing is required elsewhere.
    ask_for(message, f"steward:member-of:not:{ACME}")
    assert site.place(message) != ["node2.lab"]
    ask_for(message, "reservation:other")
    assert site.place(message) == ["node3.lab"]


def test_one_entry_for_all_owners(site: Site, capture: Capture) -> None:
    """The star in the tag stands for what it stands for in the name."""
    message = reserved(capture, "steward:entitled-tag:reservation:*+owner:*")
    ask_for(message, ACME, "owner:acme")
    assert site.place(message) == ["node2.lab"]
    ask_for(message, ACME, "owner:other", "owner:*", "owner:acme2")
    assert "only instances with the tag owner:acme may request" in site.refused(message)
    ask_for(message, "reservation:other", "owner:other")
    assert site.place(message) == ["node3.lab"]


def test_names_of_instances(site: Site, capture: Capture) -> None:
    message = reserved(capture, "steward:entitled-instance:reservation:acme+*.acme.lab")
    ask_for(message, ACME)
    assert "only instances named *.acme.lab may request" in site.refused(message)
    message["request"]["name"] = "web1.acme.lab"
    assert site.place(message) == ["node2.lab"]


def test_rules_of_the_administrator(site: Site, capture: Capture) -> None:
    """The owner of an instance does not write the configuration."""
    more = f"""
    [aggregates.entitled-tags]
    "{ACME}" = ["owner:acme"]
    [aggregates.entitled-instances]
    "{ACME}" = ["db*.lab"]
    """
    site.configure(more=more)
    message = reserved(capture)
    ask_for(message, ACME)
    assert "the tag owner:acme and instances named db*.lab may request" in site.refused(message)
    message["request"]["name"] = "db1.lab"
    assert site.place(message) == ["node2.lab"]
    message["request"]["name"] = "web1.lab"
    ask_for(message)
    site.configure(more=f'{more}\n[aggregates.instances]\n"web1.lab" = ["{ACME}"]\n')
    assert site.place(message) == ["node2.lab"]
    site.configure(more=f'{more}\n[aggregates.ask]\nos = {{"no*" = "{ACME}"}}\n')
    assert site.place(message) == ["node2.lab"]


def test_one_of_several_stays(site: Site, capture: Capture) -> None:
    message = capture("multi-allocate-two")
    message["cluster_tags"] += [*RESERVING, "steward:entitled-tag:reservation:acme+owner:acme"]
    put(message, ACME, *message["nodes"])
    first, second = message["request"]["instances"]
    first["tags"], second["tags"] = [ACME], [ACME, "owner:acme"]
    ((name, _),), failed = site.place(message, "--partial-batches")
    assert (name, failed) == (second["name"], [first["name"]])


@pytest.mark.parametrize(
    ("tag", "fault"),
    [
        ("entitled-tag:reservation:acme", "is incomplete (meant: 'steward:entitled-tag:reser"),
        ("entitled-tag:+x", "the name of an aggregate is missing"),
        ("entitled-instance:a*b+x", "'a*b' is not an aggregate name"),
        ("until:a+2026-13-01", "'2026-13-01' is not a date (YYYY-MM-DD)"),
        ("until:a", "(meant: 'steward:until:a+YYYY-MM-DD' ?)"),
        ("ask.oses:a+b", "ask.oses is unknown (known: os, hypervisor, template)"),
        ("ask.os:a", "(meant: 'steward:ask.os:a+NAME' ?)"),
        ("ask.os:a+b,c", "'b,c' is not an aggregate name"),
    ],
)
def test_faulty_tags_close_everything(site: Site, capture: Capture, tag: str, fault: str) -> None:
    message = capture("allocate-diskless")
    message["cluster_tags"].append(f"steward:{tag}")
    assert fault in site.refused(message)


def test_faults_of_the_section(site: Site) -> None:
    more = """
    [aggregates.ask]
    os = {"windows-*" = ["in:a,!b", "c"]}
    [aggregates.entitled-tags]
    "a b" = ["x"]
    [aggregates.until]
    a = "tomorrow"
    b = 2026-12-31
    """
    site.configure(more=more)
    found = list(config_faults(load_config(str(site.config_file))))
    assert [one.partition(": ")[0] for one in found] == [
        "aggregates.ask.os.windows-*",
        "aggregates.entitled-tags.a b",
        "aggregates.until.a",
    ]
