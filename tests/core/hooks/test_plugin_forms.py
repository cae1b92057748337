"""What may be a plugin apart from a module, and settings it refuses."""

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


DECLARING = """
from typing import Annotated, NamedTuple
from ganeti_steward.core.config.kinds import whole

class Rack(NamedTuple):
    row: str
    height: Annotated[int, whole(1, 48), "Height units of a rack."] = 42
    doors: tuple[str, ...] = ()

CONFIG = Rack

def configure(settings):
    global rack
    rack = settings

@hookimpl
def steward_constrain(instance):
    return []

@hookimpl
def steward_annotate():
    return [repr(rack)]
"""


def test_declared_settings(site: Site, capture: Capture) -> None:
    site.plugin("mine", DECLARING)
    site.configure("mine", more='[plugin.mine]\nrow = "b"\ndoors = ["left"]')
    info = site.ask(capture("allocate-drbd")).info
    assert info.endswith(" (Rack(row='b', height=42, doors=('left',)))")


def test_faults_of_declared_settings(site: Site, capture: Capture) -> None:
    site.plugin("mine", DECLARING)
    site.configure("mine", more='[plugin.mine]\nheight = 49\n"do\\nors" = []\ndoors = 3')
    faults = [
        "plugin.mine: has no row",
        "plugin.mine.height: 49 is not between 1 and 48",
        r"plugin.mine.'do\nors': no such key (known: row, height, doors)",
        "plugin.mine.doors: a list of texts is expected, found the number 3",
    ]
    assert site.refused(capture("allocate-drbd")) == "; ".join(faults)
    assert list(config_faults(load_config(str(site.config_file)))) == faults


def test_declared_settings_need_not_be_used(site: Site, capture: Capture) -> None:
    """Unknown keys are faults also of a plugin that has no ``configure``."""
    site.plugin("mine", DECLARING.replace("def configure", "def other"))
    site.configure("mine", more='[plugin.mine]\nrow = "b"\ncolour = 1')
    assert "plugin.mine.colour: no such key" in site.refused(capture("allocate-drbd"))


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("{'row': 'b'}", "failed: TypeError: CONFIG must be a NamedTuple class, not an object"),
        ("Rack('b')", "failed: TypeError: CONFIG must be a NamedTuple class, not a Rack"),
        (
            "NamedTuple('Odd', [('a', complex)])",
            "failed: TypeError: Odd.a of type <class 'complex'>",
        ),
        ("NamedTuple('Odd', [('a', 'Nowhere')])", "failed: NameError: name 'Nowhere' is not"),
    ],
)
def test_unusable_declarations(site: Site, capture: Capture, config: str, fault: str) -> None:
    site.plugin("mine", DECLARING.replace("CONFIG = Rack", f"CONFIG = {config}"))
    site.configure("mine")
    assert site.refused(capture("allocate-drbd")).startswith(f"plugin mine: {fault}")


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
