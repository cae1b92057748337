"""What vendors test their plugins with: a recorded machine, and what would be heard of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.testing import RecordedMachine, results_of

if TYPE_CHECKING:
    from diagnosing import Site

PLUGIN = """
    colour = ""

    def configure(settings):
        global colour
        colour = settings.get("colour", "grey")

    @hookimpl
    def steward_diagnose(machine):
        if not machine.has("acmecli"):
            yield NotApplicable("acme", "there is no acmecli")
            return
        yield Finding("acme", "Ok", "", colour)
        yield Finding("acme", machine.run("acmecli", "show").output.decode())
"""


def test_what_a_plugin_says(site: Site) -> None:
    site.plugin("acme", PLUGIN)
    assert results_of("acme", RecordedMachine(site.path)) == [
        NotApplicable("acme", "there is no acmecli")
    ]
    machine = RecordedMachine(site.path, commands={"acmecli show": {"output": "evacuate"}})
    for settings, colour in ((None, "grey"), ({"colour": "red"}, "red")):
        assert results_of("acme", machine, settings) == [
            Finding("acme", "Ok", "", colour),
            Finding("acme", "evacuate"),
        ]


def test_what_it_must_not_say(site: Site) -> None:
    site.plugin("acme", PLUGIN)
    machine = RecordedMachine(site.path, commands={"acmecli show": {"output": "broken"}})
    _, result = results_of("acme", machine)
    assert isinstance(result, Unknown)
    assert "'broken' (known: Ok, suspect, live-repair, " in result.reason
    (result,) = results_of("nosuch", machine)
    assert "neither a module nor an entry point" in result.reason


def test_what_was_not_recorded(site: Site) -> None:
    machine = RecordedMachine(site.path, commands={"acmecli show": {"output_file": "show"}})
    (site.path / "show").write_text("fine")
    assert machine.run("acmecli", "show") == Ended(0, b"fine", b"")
    with pytest.raises(LookupError, match="'acmecli list' was not recorded"):
        machine.run("acmecli", "list")
    with pytest.raises(FileNotFoundError):
        machine.run("othercli", "list")
    with pytest.raises(ValueError, match="not an absolute path"):
        machine.read("etc/passwd")


def test_a_path_is_a_file_or_a_directory(site: Site) -> None:
    """As the kernel sees it: a file has no entries, a directory no content."""
    machine = RecordedMachine(site.path, files={"/sys/class/net/eth0/mtu": "1500"})
    assert machine.read("/sys/class/net/eth0/mtu") == b"1500"
    assert machine.listing("/sys/class/net") == ["eth0"]
    with pytest.raises(NotADirectoryError):
        machine.listing("/sys/class/net/eth0/mtu")
    with pytest.raises(IsADirectoryError):
        machine.read("/sys/class/net/eth0")
    with pytest.raises(FileNotFoundError):
        machine.read("/sys/class/net/eth")
