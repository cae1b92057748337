"""All sources run: their order, and that none of them harms another or the run."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

import pytest
from programs import program
from whitelists import needs_root, whitelist

from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.run.gathering import gather
from ganeti_steward.diagnose.run.loading import this_machine
from ganeti_steward.diagnose.sources.isolated import Source
from ganeti_steward.diagnose.sources.uid_pool import Pool

if TYPE_CHECKING:
    from diagnosing import Site

GOOD = """
@hookimpl
def steward_diagnose(machine):
    yield Finding(__name__, "Ok")
"""


def test_the_order_is_that_of_the_configuration(site: Site) -> None:
    for name in ("zz", "aa"):
        site.plugin(name, GOOD)
    check = program(site.path, "check", "exit 0")
    site.configure(
        "zz",
        "aa",
        collectors=["edac", "filesystems"],
        more='commands = ["raid", "bmc"]',
        tables=f'[nagios.zzz]\ncommand = ["{check}"]\n[nagios.aaa]\ncommand = ["{check}"]',
    )
    assert [source.name for source in site.sources()] == [
        "edac", "filesystems", "zz", "aa", "command:raid", "command:bmc", "nagios:zzz",
        "nagios:aaa",
    ]  # fmt: skip


def test_a_collector_sees_the_machine_and_its_settings(site: Site) -> None:
    site.configure(collectors=["edac"])
    (one,) = site.results()
    assert isinstance(one, NotApplicable)
    site.configure(collectors=["edac"], tables='[collector.edac]\ncolour = "red"')
    (one,) = site.results()
    assert isinstance(one, Unknown)
    assert one.source == "edac"
    assert one.reason.startswith("collector.edac.colour: no such key (known: ")


def test_nothing_is_imported_by_the_run_itself(site: Site) -> None:
    site.plugin("good", GOOD)
    site.configure("good")
    assert site.results() == [Finding("good", "Ok")]
    assert "good" not in sys.modules


def test_an_entry_point(site: Site) -> None:
    info = site.modules / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ganeti_steward]\nacme-raid = acme:plugin\n")
    site.plugin(
        "acme",
        """
        class Plugin:
            disks = 0

            def configure(self, settings):
                self.disks = settings["disks"]

            @hookimpl
            def steward_diagnose(self):
                return [Finding(f"acme-raid:{n}", "Ok") for n in range(self.disks)]

        plugin = Plugin()
        """,
    )
    site.configure("acme-raid", tables="[plugin.acme-raid]\ndisks = 2")
    assert site.results() == [Finding("acme-raid:0", "Ok"), Finding("acme-raid:1", "Ok")]
    site.configure("acme-raid")
    assert site.results() == [
        Unknown("acme-raid", "plugin acme-raid: failed: KeyError: 'disks'"),
    ]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ValueError('no such rack')", "cannot be loaded: ValueError: no such rack"),
        ("sys.exit(3)", "failed: SystemExit: 3"),
        ("import nosuch", "cannot be loaded: ModuleNotFoundError: No module named 'nosuch'"),
        ("def steward_diagnose(machine): pass", "steward_diagnose is not marked with @hookimpl"),
        ("", "implements no hook"),
        ("@hookimpl\ndef steward_weigh(): pass", "does not implement steward_diagnose"),
        (
            "@hookimpl(wrapper=True)\ndef steward_diagnose():\n    yield",
            "steward_diagnose is a wrapper, which is never called",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used(site: Site, source: str, reason: str) -> None:
    site.plugin("broken", source)
    site.plugin("good", GOOD)
    site.configure("broken", "good")
    assert site.results() == [
        Unknown("broken", f"plugin broken: {reason}"),
        Finding("good", "Ok"),
    ]


def test_a_plugin_that_is_not_there(site: Site) -> None:
    site.configure("nosuch.module")
    (one,) = site.results()
    assert one == Unknown(
        "nosuch.module",
        "plugin nosuch.module: is neither a module nor an entry point of the group ganeti_steward",
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("os._exit(7)", "ended with exit status 7 before it was done"),
        ("ctypes.string_at(0)", "was ended by SIGSEGV"),
        ("raise KeyboardInterrupt", "failed: KeyboardInterrupt: no message"),
        ("return [Finding('other', 'Ok')]", "reports for 'other', not for itself"),
        ("return [5]", "returned 5, which is not a result of a source"),
        ("return None", "reported nothing"),
        ("return []", "reported nothing"),
    ],
)
def test_a_plugin_that_fails(site: Site, source: str, reason: str) -> None:
    site.plugin("broken", f"@hookimpl\ndef steward_diagnose(machine):\n    {source}")
    site.plugin("good", GOOD)
    site.configure("broken", "good")
    assert site.results() == [Unknown("broken", reason), Finding("good", "Ok")]


@pytest.mark.parametrize("where", ["import", "hook"])
@pytest.mark.parametrize(
    "hanging",
    [
        "while True: pass",
        "time.sleep(3600)",
        "ctypes.CDLL(None).sleep(3600)",
        "import re; re.match('(a+)+$', 'a' * 60 + '!')",
    ],
    ids=["loop", "sleep", "library", "regular expression"],
)
def test_a_plugin_that_hangs(site: Site, where: str, hanging: str) -> None:
    if where == "import":
        site.plugin("endless", hanging)
    else:
        site.plugin("endless", f"@hookimpl\ndef steward_diagnose(machine):\n    {hanging}")
    site.plugin("good", GOOD)
    site.configure("endless", "good", limit=2)
    found = site.results()
    assert found[1:] == [Finding("good", "Ok")]
    assert isinstance(found[0], Unknown)
    assert found[0].source == "endless"


def test_results_before_a_failure_stay(site: Site) -> None:
    site.plugin(
        "half",
        """
        @hookimpl
        def steward_diagnose(machine):
            yield Finding("half:a", "evacuate")
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    site.configure("half")
    assert site.results() == [
        Finding("half:a", "evacuate"),
        Unknown("half", "was ended by SIGKILL"),
    ]


@needs_root
def test_commands(site: Site) -> None:
    with whitelist() as commands:
        program(commands, "raid", """echo '{"status": "live-repair", "command": "fix"}'""")
        program(commands, "bad", "echo oops")
        site.configure(more='commands = ["*", "raid"]')
        assert site.results(str(commands)) == [
            Unknown("command:bad", "printed no diagnose object: it is not JSON"),
            Finding("command:raid", "live-repair", "fix"),
        ]


def test_no_whitelist(site: Site) -> None:
    site.configure(more='commands = ["*"]')
    (one,) = site.results("/nonexistent")
    assert one == NotApplicable("command", "there is no /nonexistent")


def test_a_source_that_says_nothing() -> None:
    silent = Source("silent", list, 300)
    moments = iter(range(10))
    (gathered,) = gather([silent], clock=lambda: float(next(moments)))
    assert gathered[:3] == ("silent", (Unknown("silent", "reported nothing"),), 1.0)


def test_many_plugins_in_any_order(site: Site) -> None:
    names = [f"plugin{n}" for n in range(6)]
    for name in names:
        site.plugin(name, GOOD)
    random.Random(5).shuffle(names)
    site.configure(*names)
    expected: list[CheckResult] = [Finding(name, "Ok") for name in names]
    assert site.results() == expected


def test_a_real_machine(site: Site) -> None:
    """This one, by everything that is built in; each says something, whatever it is."""
    from ganeti_steward.core.builtins import COLLECTORS

    site.machine = this_machine
    site.configure(collectors=COLLECTORS)
    gathered = gather(site.sources())
    assert [one.source for one in gathered] == list(COLLECTORS)
    reasons = [
        one.reason for source in gathered for one in source.results if isinstance(one, Unknown)
    ]
    assert [reason for reason in reasons if reason.startswith("failed: ")] == []


def test_commands_under_a_user_id_of_the_pool(site: Site) -> None:
    """Those that are named, and no others."""
    site.configure(more='commands = ["raid", "bmc"]\npool-user = ["bmc"]')
    pools = [getattr(source.call, "args")[-1] for source in site.sources()]  # noqa: B009
    assert pools == [None, Pool()]


SLEEPS = """
@hookimpl
def steward_diagnose(machine):
    time.sleep({seconds})
    yield Finding(__name__, "Ok")
"""


def test_slow_sources_run_side_by_side(site: Site) -> None:
    """Each waits for the other, which it would do for ever one after the other."""
    for name, other in (("one", "two"), ("two", "one")):
        site.plugin(
            name,
            f"""
            @hookimpl
            def steward_diagnose(machine):
                open("{site.path}/{name}", "w").close()
                while not os.path.exists("{site.path}/{other}"):
                    time.sleep(0.01)
                yield Finding("{name}", "Ok")
            """,
        )
    site.configure("one", "two")
    found = gather(site.sources(), parallel=2)
    assert [one.results for one in found] == [(Finding(n, "Ok"),) for n in ("one", "two")]


def test_no_more_than_that_at_a_time(site: Site) -> None:
    running = site.path / "running"
    running.mkdir()
    for number in range(6):
        site.plugin(
            f"plugin{number}",
            f"""
            @hookimpl
            def steward_diagnose(machine):
                os.mkdir("{running}/" + __name__)
                time.sleep(0.05)
                count = len(os.listdir("{running}"))
                os.rmdir("{running}/" + __name__)
                yield Finding(__name__, "Ok", "", count)
            """,
        )
    site.configure(*(f"plugin{number}" for number in range(6)))
    found = [one.results[0] for one in gather(site.sources(), parallel=2)]
    assert all(isinstance(one, Finding) and one.details <= 2 for one in found), found


def test_a_source_takes_two_processes(site: Site) -> None:
    """A supervisor and its worker; nothing is between them and the run."""
    site.plugin(
        "family",
        """
        @hookimpl
        def steward_diagnose(machine):
            stat = machine.run("cat", f"/proc/{os.getppid()}/stat").output.decode()
            yield Finding("family", "Ok", "", int(stat.rpartition(")")[2].split()[1]))
        """,
    )
    site.configure("family")
    site.machine = this_machine
    assert site.results() == [Finding("family", "Ok", "", os.getpid())]


def test_the_whole_run_has_a_limit(site: Site) -> None:
    """What is under way then is stopped, and what did not begin is not run: both are unknown."""
    for name in ("first", "second"):
        site.plugin(name, SLEEPS.format(seconds=3600))
    site.configure("first", "second", limit=3600)
    found = [one.results[0] for one in gather(site.sources(), parallel=1, limit=2)]
    assert found == [
        Unknown("first", "stopped: the whole run has taken 2 s"),
        Unknown("second", "not run: the whole run has taken 2 s"),
    ]
