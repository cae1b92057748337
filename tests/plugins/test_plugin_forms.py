"""What may be a plugin besides a module, and settings it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganeti_steward.core.commands.check_config import config_faults
from ganeti_steward.core.config.load import load_config

if TYPE_CHECKING:
    from sites import Capture, Site

COUNTING = """
class Rules:
    calls = 0

    @hookimpl
    def steward_constrain(self):
        self.calls += 1

    @hookimpl
    def steward_annotate(self):
        return [f"called {self.calls} times"]
"""


def install(site: Site, *points: str) -> None:
    """A distribution with these entry points, as pip would leave it."""
    info = site.modules / "counting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[ganeti_steward]", *points, ""]))


def test_a_class_is_an_object_of_each_run(site: Site, capture: Capture) -> None:
    site.plugin("counting", COUNTING)
    install(site, "counted = counting:Rules")
    site.configure("counted")
    for _ in range(2):
        assert site.ask(capture("allocate-drbd")).info.endswith(" (called 1 times)")


def test_settings_that_it_refuses(site: Site, capture: Capture) -> None:
    site.plugin(
        "rack",
        """
        from ganeti_steward.core.errors import BadSettings

        def configure(settings):
            raise BadSettings("rack", [f"plugin.rack.{key}: is no key" for key in settings])

        @hookimpl
        def steward_constrain():
            return []
        """,
    )
    site.configure("rack", more="[plugin.rack]\na = 1\nb = 2")
    faults = ["plugin.rack.a: is no key", "plugin.rack.b: is no key"]
    assert site.refused(capture("allocate-drbd")) == "; ".join(faults)
    assert list(config_faults(load_config(str(site.config_file)))) == faults


CHECKING = """
@hookimpl
def steward_check_config(config):
    {line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("return", []),
        ("yield f'plugin.rack: {len(config.plugins.load)}'", ["plugin.rack: 1"]),
        ("return [5]", ["plugin rack: a fault is 5, not a text"]),
        ("return 'x'", ["plugin rack: steward_check_config must give a list, not 'x'"]),
        ("raise ValueError('no')", ["plugin rack: failed: ValueError: no"]),
    ],
)
def test_what_a_plugin_finds_in_the_configuration(site: Site, line: str, found: list[str]) -> None:
    site.plugin("rack", CHECKING.format(line=line))
    site.configure("rack")
    assert list(config_faults(load_config(str(site.config_file)))) == found
