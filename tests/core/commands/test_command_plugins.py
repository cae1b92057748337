"""``gnt-steward plugins``: one line per plugin, in tables as Ganeti prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from programs import program

from ganeti_steward.core.model.requests import HOOKS

if TYPE_CHECKING:
    from front import Front

BALANCED: Final = ",".join(HOOKS.values())

RULES: Final = """\
from ganeti_steward.core import hookimpl


@hookimpl
def steward_weigh(cluster):
    return []


@hookimpl
def steward_constrain(cluster):
    return []


"""


def rows(front: Front) -> list[list[str]]:
    """The lines of what this distribution brings and the configuration names."""
    done = front("plugins", "--separator=|", "--no-headers")
    return [line.split("|") for line in done.out.splitlines()]


def install(front: Front, *points: str) -> None:
    """A distribution with these entry points, as pip would leave it."""
    info = front.modules / "site_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[ganeti_steward]", *points, ""]))


def test_table(front: Front) -> None:
    done = front("plugins")
    assert (done.status, done.err) == (0, "")
    headings, balanced = done.out.splitlines()[:2]
    assert headings.split() == ["Plugin", "Source", "Loaded", "Hooks"]
    assert balanced.split() == ["balanced", "built-in", "Y", BALANCED]
    assert headings.index("Hooks") == balanced.index("steward_allocate")


def test_no_headers(front: Front) -> None:
    with_headers, without = front("plugins").out, front("plugins", "--no-headers").out
    assert [line.split() for line in without.splitlines()] == [
        line.split() for line in with_headers.splitlines()[1:]
    ]


def test_separator(front: Front) -> None:
    lines = front("plugins", "--separator", "::").out.splitlines()
    assert lines[0] == "Plugin::Source::Loaded::Hooks"
    assert lines[1] == f"balanced::built-in::Y::{BALANCED}"


def test_module(front: Front) -> None:
    front.plugin("rules", RULES)
    front.configure('[plugins]\nload = ["rules"]')
    assert ["rules", "module", "Y", "steward_constrain,steward_weigh"] in rows(front)


def test_entry_points(front: Front) -> None:
    """Installed ones are listed whether or not they are loaded."""
    front.plugin("site_rules", RULES)
    front.plugin("site_crash", "raise ValueError('no such rack')")
    install(front, "good = site_rules", "bad = site_crash", "lost = site_rules:nosuch")
    front.configure('[plugins]\nload = ["good"]')
    found = {row[0]: row[1:] for row in rows(front)}
    assert found["good"] == ["entry point", "Y", "steward_constrain,steward_weigh"]
    fault = "error: cannot be loaded: ValueError: no such rack"
    assert found["bad"] == ["entry point", "N", fault]
    assert found["lost"][2].startswith("error: cannot be loaded: AttributeError: ")
    assert list(found)[:4] == ["balanced", "dedicated", "packed", "aggregates"]
    assert list(found)[-3:] == ["good", "bad", "lost"]
    assert front("plugins").status == 1


def test_faulty_plugins_do_not_hide_the_others(front: Front) -> None:
    front.plugin("rules", RULES)
    front.plugin("leave", "import sys\nsys.exit(3)")
    front.plugin("endless", "while True: pass")
    front.plugin("typo", RULES.replace("(cluster)", "(vm)"))
    front.configure(
        """
        [plugins]
        load = ["leave", "endless", "typo", "nosuch", "rules"]
        time-limit = 0.5
        """
    )
    found = {row[0]: row[3] for row in rows(front)}
    assert found["leave"] == "error: failed: SystemExit: 3"
    assert found["endless"].endswith("took longer than its 0.5 s and was stopped")
    assert found["typo"].startswith("error: cannot be registered: ")
    assert found["nosuch"].startswith("error: is neither a module nor an entry")
    assert found["rules"] == "steward_constrain,steward_weigh"
    assert front("plugins").status == 1


def test_programs(front: Front) -> None:
    """Those that chains and shadows name, with the hooks they stand in for."""
    good = program(front.path, "good", "true")
    front.configure(
        f"""
        [allocators]
        allocate = ["command:{good}", "balanced"]
        relocate = ["command:/nonexistent/program"]
        [shadow]
        allocate = ["command:{good}"]
        capacity = ["command:{good}"]
        """
    )
    found = rows(front)
    assert [f"command:{good}", "program", "Y", "steward_allocate,steward_capacity"] in found
    fault = "command:/nonexistent/program: /nonexistent cannot be opened: No such file or directory"
    assert ["command:/nonexistent/program", "program", "Y", f"error: {fault}"] in found
    assert front("plugins").status == 1


def test_collectors(front: Front) -> None:
    """Built-in ones, and plugins of the diagnosis alone."""
    front.plugin("acme", "from ganeti_steward.core import hookimpl\n\n\n@hookimpl\n"
                 "def steward_diagnose(machine):\n    return []\n")  # fmt: skip
    front.plugin("rules", RULES)
    front.configure(
        """
        [diagnose]
        collectors = ["smart", "md"]
        load = ["acme", "rules"]
        [collector.md]
        colour = "red"
        """
    )
    found = {row[0]: row[1:] for row in rows(front)}
    assert found["smart"] == ["built-in", "Y", "steward_diagnose"]
    assert found["edac"] == ["built-in", "N", "steward_diagnose"]
    assert found["md"][2].startswith("error: collector.md.colour: no such key (known: ")
    assert found["acme"] == ["module", "Y", "steward_diagnose"]
    assert found["rules"][2] == "error: does not implement steward_diagnose"
    assert front("plugins").status == 1


def test_built_in_named_in_load(front: Front) -> None:
    front.configure('[plugins]\nload = ["balanced"]')
    assert rows(front).count(["balanced", "built-in", "Y", BALANCED]) == 1
    assert front("plugins").status == 0


def test_process(front: Front) -> None:
    front.plugin("rules", RULES)
    front.configure('[plugins]\nload = ["rules"]')
    done = front.run("plugins", "--no-headers", "--separator=,")
    assert done.status == 0
    assert "rules,module,Y,steward_constrain,steward_weigh" in done.out.splitlines()
