"""Built-in plugins: registered through the same manager, each when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from asserting import some
from paths import DOCS, ROOT

from ganeti_steward.core.builtins import ALLOCATORS, BUILT_INS, COLLECTORS, BuiltIn
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.manager import Plugins, hook_names
from ganeti_steward.core.model.requests import HOOKS

#: Prints the modules of built-in plugins that are imported when nothing needs any.
LOADED = """
import sys
from ganeti_steward.core.builtins import BUILT_INS
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.hooks.manager import Plugins
Plugins(Config())
print([one.name for one in BUILT_INS if one.target.partition(":")[0] in sys.modules])
"""


@pytest.mark.parametrize("one", BUILT_INS, ids=lambda one: one.name)
def test_it_implements_the_hooks_it_is_loaded_for(one: BuiltIn) -> None:
    hooks = Plugins(Config(), ()).hooks(one.name)
    assert hooks
    assert set(one.hooks) <= set(hooks) <= set(hook_names())


@pytest.mark.parametrize("one", BUILT_INS, ids=lambda one: one.name)
def test_something_calls_it(one: BuiltIn) -> None:
    hooks = Plugins(Config(), ()).hooks(one.name)
    assert one.hooks or one.key or set(hooks) <= set(HOOKS.values()), (
        f"core/builtins.py: the row of {one.name} in BUILT_INS has neither hooks nor a key, so "
        f"nothing calls its {', '.join(hooks)}"
    )


@pytest.mark.parametrize("one", BUILT_INS, ids=lambda one: one.name)
def test_it_has_the_section_of_its_kind(one: BuiltIn) -> None:
    sections = {"diagnose.collectors": f"collector.{one.name}", "steward_plan": "maintd"}
    expected = {sections[kind] for kind in {one.key, *one.hooks} & {*sections}}
    assert expected in (set(), {one.section}), (
        f"core/builtins.py: the section of {one.name} in BUILT_INS is {expected}"
    )


def test_allocators_and_collectors() -> None:
    plugins = Plugins(Config(), ())
    same = "core/builtins.py: BUILT_INS and the list of names differ"
    allocators = [one.name for one in BUILT_INS if one == BuiltIn(one.name, one.target)]
    assert allocators == [*ALLOCATORS], same
    collectors = [one.name for one in BUILT_INS if one.key == "diagnose.collectors"]
    assert collectors == [*COLLECTORS], same
    for name in some(ALLOCATORS):
        assert set(plugins.hooks(name)) <= set(HOOKS.values())
    for name in some(COLLECTORS):
        assert plugins.hooks(name) == ["steward_diagnose"]


def test_nothing_is_imported_before_it_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def modules_with_hooks() -> list[str]:
    """The modules outside of the core that implement hooks."""
    return [
        str(file.relative_to(ROOT))
        for room in ("allocators", "plugins", "diagnose")
        for file in sorted((ROOT / room).rglob("*.py"))
        if "@hookimpl\n" in file.read_text()
    ]


@pytest.mark.parametrize("file", some(modules_with_hooks()))
def test_every_module_with_hooks_is_a_built_in_plugin(file: str) -> None:
    name = f"ganeti_steward.{file.removesuffix('.py').replace('/', '.')}"
    assert name in {one.target.partition(":")[0] for one in BUILT_INS}, (
        f"{file} implements a hook, but nothing loads it: name it in BUILT_INS of core/builtins.py"
    )


def test_the_page_of_the_hook_names_the_repairs_in_their_order() -> None:
    page = " ".join((DOCS / "reference" / "hooks" / "steward_plan.md").read_text().split())
    names = [f"`{one.name}`" for one in BUILT_INS if "steward_plan" in one.hooks]
    text = f"the built-in ones ({', '.join(names[:-1])} and {names[-1]})"
    assert text in page, f"docs/reference/hooks/steward_plan.md: say {text}"


def test_names_are_unique() -> None:
    assert len({one.name for one in BUILT_INS}) == len(BUILT_INS)


def test_a_name_that_is_none() -> None:
    with pytest.raises(PluginError, match=r"plugin nosuch: is not a loaded allocator"):
        Plugins(Config(), ()).implementation("nosuch", "steward_allocate")
    with pytest.raises(PluginError, match="plugin md: does not implement steward_allocate"):
        Plugins(Config(), ()).implementation("md", "steward_allocate")
