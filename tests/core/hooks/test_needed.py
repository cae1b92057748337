"""Plugins that take part only where a tag or their section of the configuration needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sites import Capture, Message, Site

TENANTS = """
from ganeti_steward.core.needed import Needed

NEEDED = {needed}

@hookimpl
def steward_constrain(instance):
    return [Ban("node1.lab", role, "tenants", "is for tenants") for role in ROLES]

@hookimpl
def steward_annotate():
    return ["checked for tenants"]
"""


def tenants(site: Site, needed: str, more: str = "") -> None:
    site.plugin("tenants", TENANTS.format(needed=needed))
    site.configure("tenants", more=more)


def takes_part(site: Site, message: Message) -> bool:
    """Whether the ban counts, and with it the note."""
    outcome = site.ask(message)
    noted = outcome.info.endswith("(checked for tenants)")
    assert noted == ("node1.lab" not in site.place(message))
    return noted


@pytest.mark.parametrize("kind", ["cluster", "group", "node", "instance"])
def test_a_tag_of(site: Site, capture: Capture, kind: str) -> None:
    tenants(site, 'Needed(tags=("other:", "tenant:"))')
    message = capture("allocate-drbd")
    assert not takes_part(site, message)
    objects = {
        "cluster": message["cluster_tags"],
        "group": next(iter(message["nodegroups"].values()))["tags"],
        "node": message["nodes"]["node6.lab"]["tags"],
        "instance": message["request"]["tags"],
    }
    objects[kind].append("a:tenant:")
    assert not takes_part(site, message)
    objects[kind].append("tenant:acme")
    assert takes_part(site, message)


def test_a_tag_of_another_instance(site: Site, capture: Capture) -> None:
    tenants(site, 'Needed(tags=("tenant:",))')
    message = capture("allocate-drbd")
    for instance in message["instances"].values():
        instance["tags"] = ["tenant:acme"]
    assert not takes_part(site, message)


def test_its_section(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    for more, expected in (
        ("", False),
        ("[plugin.tenants]", False),
        ("[plugin.other]\nname = 'acme'", False),
        ("[plugin.tenants]\nname = 'acme'", True),
    ):
        tenants(site, "Needed(section=True)", more)
        assert takes_part(site, message) == expected


def test_a_section_that_does_not_count(site: Site, capture: Capture) -> None:
    tenants(site, 'Needed(tags=("tenant:",))', "[plugin.tenants]\nname = 'acme'")
    assert not takes_part(site, capture("allocate-drbd"))


def test_faults_are_found_whether_or_not_it_is_needed(site: Site, capture: Capture) -> None:
    tenants(site, 'Needed(tags=("tenant:",))\ndef configure(settings): settings["name"]')
    assert site.refused(capture("allocate-drbd")) == "plugin tenants: failed: KeyError: 'name'"


@pytest.mark.parametrize("needed", ["5", "'tenant:'", "Needed"])
def test_a_wrong_declaration(site: Site, capture: Capture, needed: str) -> None:
    tenants(site, needed)
    fault = site.refused(capture("allocate-drbd"))
    assert fault.startswith("plugin tenants: NEEDED is ")
    assert fault.endswith(", not a Needed")


def test_an_allocator_is_called_whether_or_not_it_is_needed(site: Site, capture: Capture) -> None:
    site.plugin(
        "mine",
        """
        from ganeti_steward.core.needed import Needed
        NEEDED = Needed(tags=("tenant:",))

        @hookimpl
        def steward_allocate(request):
            return Refusal("mine refuses")
        """,
    )
    site.configure("mine", more='[allocators]\nallocate = ["mine"]')
    assert site.refused(capture("allocate-drbd")) == "mine refuses"
