"""Finding, importing, registering and configuring plugins, and all that can go wrong there."""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks import loading as plugins

if TYPE_CHECKING:
    from sites import Capture, Site

DISTRIBUTION: Final = Path(__file__).parent / "fixtures" / "example-plugins"

GOOD: Final = "@hookimpl\ndef steward_constrain(cluster):\n    return []\n"

#: A module's text -> its fault in the answer.
UNUSABLE: Final = {
    "exception": ("raise ValueError('no such rack')", "cannot be loaded: ValueError: no such rack"),
    "exit": ("sys.exit('bye')", "failed: SystemExit: bye"),
    "syntax": ("def", "cannot be loaded: SyntaxError: invalid syntax"),
    "library": (
        "import nosuchlibrary",
        "cannot be loaded: ModuleNotFoundError: No module named 'nosuchlibrary'",
    ),
    "own module": (
        "import faulty.rules",
        "cannot be loaded: ModuleNotFoundError: No module named 'faulty.rules'",
    ),
    "name": (
        "from ganeti_steward.core import hookimp",
        "cannot be loaded: ImportError: cannot import name 'hookimp'",
    ),
    "hangs": ("time.sleep(3600)", "took longer than its 0.5 s and was stopped"),
    "hangs busily": ("while True: pass", "took longer than its 0.5 s and was stopped"),
    "empty": ("", "implements no hook"),
    "unmarked": (
        "def steward_constrain(cluster): return []",
        "steward_constrain is not marked with @hookimpl",
    ),
    "one unmarked": (
        f"{GOOD}def steward_weigh(cluster): return []",
        "steward_weigh is not marked with @hookimpl",
    ),
    "unknown hook": (
        "@hookimpl\ndef steward_constrains(cluster): return []",
        "cannot be registered: unknown hook 'steward_constrains'",
    ),
    "unknown argument": (
        "@hookimpl\ndef steward_constrain(cluster, vm): return []",
        "Argument(s) {'vm'} are declared in the hookimpl but can not be found in the hookspec",
    ),
    "wrapper": (
        "@hookimpl(wrapper=True)\ndef steward_constrain(cluster): return (yield)",
        "steward_constrain is a wrapper, which is never called",
    ),
    "old wrapper": (
        "@hookimpl(hookwrapper=True)\ndef steward_constrain(cluster): yield",
        "steward_constrain is a wrapper, which is never called",
    ),
    "configure raises": (
        f"{GOOD}def configure(settings): raise ValueError('rack is missing')",
        "failed: ValueError: rack is missing",
    ),
    "configure exits": (f"{GOOD}def configure(settings): sys.exit(1)", "failed: SystemExit: 1"),
    "configure hangs": (
        f"{GOOD}def configure(settings): time.sleep(3600)",
        "took longer than its 0.5 s and was stopped",
    ),
    "configure takes nothing": (
        f"{GOOD}def configure(): pass",
        "failed: TypeError: configure() got an unexpected keyword argument 'settings'",
    ),
    "configure is a value": (f"{GOOD}configure = 5", "failed: TypeError: 'int' object is not"),
}


@pytest.fixture
def distribution(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The example distribution, installed as pip would leave it."""
    project = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text())["project"]
    (site.modules / "example_plugins").symlink_to(DISTRIBUTION / "example_plugins")
    info = site.modules / f"example_plugins-{project['version']}.dist-info"
    info.mkdir()
    name, version = project["name"], project["version"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = project["entry-points"]["ganeti_steward"]
    lines = [f"{point} = {target}" for point, target in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[ganeti_steward]", *lines, ""]))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return site


@pytest.mark.parametrize(("source", "fault"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable(site: Site, capture: Capture, source: str, fault: str) -> None:
    site.plugin("faulty", source)
    site.configure("faulty", limit=0.5)
    started = time.monotonic()
    info = site.refused(capture("allocate-drbd"))
    assert info.startswith("plugin faulty: ")
    assert fault in info
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("name", ["nosuch", "nosuch.rules", "os.nosuch", "no-such", "no such:x"])
def test_missing(site: Site, capture: Capture, name: str) -> None:
    site.configure(name)
    info = site.refused(capture("allocate-drbd"))
    assert info == (
        f"plugin {name}: is neither a module nor an entry point of the group ganeti_steward"
    )


@pytest.mark.parametrize("name", [".rules", "..", "os..path"])
def test_impossible_names(site: Site, capture: Capture, name: str) -> None:
    site.configure(name)
    assert site.refused(capture("allocate-drbd")).startswith(f"plugin {name}: ")


def test_another_module_of_that_name(site: Site, capture: Capture) -> None:
    """A directory found on the search path by accident is no plugin."""
    (site.modules / "rules").mkdir()
    site.configure("rules")
    assert site.refused(capture("allocate-drbd")) == "plugin rules: implements no hook"


def test_dotted_name(site: Site, capture: Capture) -> None:
    (site.modules / "mysite").mkdir()
    (site.modules / "mysite" / "__init__.py").write_text("")
    site.plugin("mysite/rules", "def configure(settings): print(settings['rack'])\n" + GOOD)
    site.configure("mysite.rules", more='[plugin."mysite.rules"]\nrack = "b"\n')
    assert site.place(capture("allocate-drbd"))


def test_two_names_of_one_plugin(distribution: Site, capture: Capture) -> None:
    distribution.plugin("alias", "import sys\nfrom example_plugins import good\n")
    alias = distribution.modules / "alias.py"
    alias.write_text(alias.read_text() + "sys.modules['alias'] = good.plugin\n")
    distribution.configure("example-good", "alias")
    info = distribution.refused(capture("allocate-drbd"))
    assert info.startswith("plugin alias: cannot be registered: Plugin already registered")


def test_first_fault_is_reported(site: Site, capture: Capture) -> None:
    site.configure("nosuch", "neither")
    assert site.refused(capture("allocate-drbd")).startswith("plugin nosuch: ")


def test_built_in_by_name(site: Site, capture: Capture) -> None:
    site.configure()
    balanced = site.place(capture("allocate-drbd"))
    site.configure("balanced")
    assert site.place(capture("allocate-drbd")) == balanced


@pytest.mark.parametrize(
    ("more", "received"),
    [
        ("", "{}"),
        ("[plugin.other]\nrack = 1", "{}"),
        (
            '[plugin.mine]\nrack = "b"\nlimits = [1, 2.5]\n[plugin.mine.deep]\non = true',
            "{'rack': 'b', 'limits': [1, 2.5], 'deep': {'on': True}}",
        ),
    ],
    ids=["none", "another's", "own"],
)
def test_own_section(site: Site, capture: Capture, more: str, received: str) -> None:
    site.plugin(
        "mine",
        """
        received = None

        def configure(settings):
            global received
            received = settings

        @hookimpl
        def steward_constrain(cluster):
            raise ValueError(received)
        """,
    )
    site.configure("mine", more=more)
    info = site.refused(capture("allocate-drbd"))
    assert info == f"plugin mine: failed: ValueError: {received}"


def test_entry_point(distribution: Site, capture: Capture) -> None:
    """A plugin that is an object, found by its entry point, configured by its name."""
    message = capture("allocate-drbd")
    distribution.configure("example-good")
    before = distribution.place(message)
    node = before[0]
    distribution.configure("example-good", more=f'[plugin.example-good]\nnode = "{node}"')
    assert node not in distribution.place(message)


def test_broken_entry_point(distribution: Site, capture: Capture) -> None:
    distribution.configure("example-good", "example-broken")
    info = distribution.refused(capture("allocate-drbd"))
    assert info == (
        "plugin example-broken: cannot be loaded: ModuleNotFoundError: "
        "No module named 'library_that_is_not_installed'"
    )


def test_installed_but_not_named(distribution: Site, capture: Capture) -> None:
    """Being installed loads nothing, so a broken neighbour does no harm."""
    distribution.configure()
    assert distribution.place(capture("allocate-drbd"))
    names = [point.name for point in plugins.entry_points()]
    assert {"example-good", "example-broken"} <= set(names)


def test_entry_point_named_like_its_package(distribution: Site) -> None:
    """The package itself has no hook: what the entry point names has them."""
    points = distribution.modules / "example_plugins-1.0.dist-info" / "entry_points.txt"
    points.write_text("[ganeti_steward]\nexample_plugins = example_plugins.good:plugin\n")
    found = plugins.load_plugin("example_plugins")
    assert hasattr(found, "steward_constrain")


def test_entry_point_without_its_object(distribution: Site) -> None:
    points = distribution.modules / "example_plugins-1.0.dist-info" / "entry_points.txt"
    points.write_text("[ganeti_steward]\nexample-lost = example_plugins.good:nosuch\n")
    with pytest.raises(PluginError, match="plugin example-lost: cannot be loaded: AttributeError"):
        plugins.load_plugin("example-lost")


def test_real_process(distribution: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    distribution.configure("example-good", more='[plugin.example-good]\nnode = "node1.lab"')
    answer = distribution.run(message)
    assert answer["success"] is True
    assert "node1.lab" not in answer["result"]
    distribution.configure("example-broken")
    answer = distribution.run(message)
    assert answer["success"] is False
    assert answer["info"].startswith("Request failed: plugin example-broken: cannot be loaded")


@pytest.mark.parametrize("source", ["sys.exit(0)", "time.sleep(3600)", "print('noise')"])
def test_real_process_that_fails_at_import(site: Site, capture: Capture, source: str) -> None:
    site.plugin("faulty", source)
    site.configure("faulty", limit=0.5)
    answer = site.run(capture("allocate-drbd"))
    assert answer["success"] is False
    assert answer["info"].startswith("Request failed: plugin faulty: ")
