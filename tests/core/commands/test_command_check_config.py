"""``gnt-steward check-config``: every fault at once, each with its path."""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from programs import program

from ganeti_steward.core import builtins
from ganeti_steward.core.config.declaration import keys
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.diagnose.config.sections import Nagios

if TYPE_CHECKING:
    from front import Front

RULES = """\
from ganeti_steward.core import hookimpl


@hookimpl
def steward_constrain(cluster):
    return []
"""


def faults(front: Front) -> list[str]:
    """The faults of the configuration, without the file's name."""
    done = front("check-config")
    assert (done.status, done.err) == (1, "")
    prefix = f"{front.config_file}: "
    lines = done.out.splitlines()
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


def test_good(front: Front) -> None:
    front.plugin("rules", RULES)
    front.configure(
        """
        [plugins]
        load = ["rules"]
        time-limit = 2.5
        [allocators]
        allocate = ["balanced"]
        [weigh]
        rules = 2
        [plugin.rules]
        anything = ["at", "all"]
        """
    )
    done = front("check-config")
    assert (done.status, done.out, done.err) == (0, f"{front.config_file}: OK\n", "")


def test_another_file(front: Front) -> None:
    other = front.path / "other.toml"
    other.write_text("[log]\nlevel = 'loud'\n")
    done = front("check-config", str(other))
    assert done.status == 1
    assert done.out.startswith(
        f"{other}: log.level: one of debug, info, warning, error is expected"
    )
    assert front("check-config").status == 0


def test_missing_file(front: Front) -> None:
    done = front("check-config", str(front.path / "nosuch.toml"))
    assert done.status == 1
    assert done.out == f"{front.path}/nosuch.toml: the file does not exist\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[log\n", "is not valid TOML"),
        ("a = 1\na = 2\n", "is not valid TOML"),
        ("colour = 'red'", "colour"),
        ("log = 5", "log"),
        ("[log]\ncolour = 'red'", "log.colour"),
        ("[log]\nlevel = 5", "log.level"),
        ("[log]\nfile = 'steward.log'", "log.file"),
        ("[history]\nkeep = -1", "history.keep"),
        ("[history]\nkeep = true", "history.keep"),
        ("[plugins]\ntime-limit = nan", "plugins.time-limit"),
        ("[plugins]\ntime_limit = 5", "plugins.time_limit"),
        ("[plugins]\nload = 'rules'", "plugins.load"),
        ("[plugins]\nload = ['a', 'a']", "plugins.load"),
        ("[allocators]\ntime-limit = 900", "allocators.time-limit"),
        ("[shadow]\nallocate = 'hail'", "shadow.allocate"),
        ("[shadow]\ntime-limit = 0", "shadow.time-limit"),
        ("weigh = 5", "weigh"),
        ("[weigh]\nrules = 'much'", "weigh.rules"),
        ("[weigh]\nrules = -1", "weigh.rules"),
        ("plugin = 5", "plugin"),
        ("[plugin]\nrules = 5", "plugin.rules"),
    ],
)
def test_one_fault(front: Front, text: str, path: str) -> None:
    front.config_file.write_text(text)
    (found,) = faults(front)
    assert found.startswith(f"{path}: ")
    assert found.removeprefix(f"{path}: ")


def test_not_utf_8(front: Front) -> None:
    front.config_file.write_bytes(b"[log]\nfile = '/var/log/\xff'\n")
    (found,) = faults(front)
    assert found.startswith("is not valid TOML: ")


def test_all_faults_at_once(front: Front) -> None:
    """More than ten are listed in full here: one line each."""
    keys = [f"key{number} = {number}" for number in range(15)]
    text = "\n".join(["[log]", *keys, "[history]", "keep = -1", "[colour]"])
    front.config_file.write_text(text)
    found = faults(front)
    assert [line.split(":")[0] for line in found] == [
        "colour",
        "history.keep",
        *(f"log.key{number}" for number in range(15)),
    ]


def test_faulty_plugins(front: Front) -> None:
    """Each plugin that cannot be loaded is reported, and what the good ones lack."""
    front.plugin("rules", RULES)
    front.plugin("crash", "raise ValueError('no such rack')")
    front.plugin("leave", "import sys\nsys.exit(0)")
    front.plugin("silent", "")
    front.plugin("typo", RULES.replace("(cluster)", "(vm)"))
    front.plugin("unmarked", RULES.replace("@hookimpl", ""))
    front.configure(
        """
        [plugins]
        load = ["rules", "crash", "leave", "silent", "typo", "unmarked", "nosuch"]
        [allocators]
        allocate = ["rules", "crash", "balanced"]
        relocate = ["elsewhere", "balanced"]
        [weigh]
        other = 2
        [plugin.absent]
        """
    )
    found = faults(front)
    assert found[:3] == [
        "plugins.load: plugin crash: cannot be loaded: ValueError: no such rack",
        "plugins.load: plugin leave: failed: SystemExit: 0",
        "plugins.load: plugin silent: implements no hook",
    ]
    assert found[3].startswith("plugins.load: plugin typo: cannot be registered: ")
    assert found[4:6] == [
        "plugins.load: plugin unmarked: steward_constrain is not marked with @hookimpl",
        "plugins.load: plugin nosuch: is neither a module nor an entry point of the group "
        "ganeti_steward",
    ]
    assert found[6:] == [
        "allocators.allocate: plugin rules: does not implement steward_allocate",
        "allocators.relocate: plugin elsewhere: is not a loaded allocator "
        "(loaded: balanced, dedicated, packed, rules)",
        "weigh.other: no plugin of this name is loaded",
        "plugin.absent: no plugin of this name is loaded",
    ]


def test_collectors_among_the_plugins(front: Front) -> None:
    """They are called only where the key of their hook names them."""
    front.plugin(
        "acme",
        """
        from ganeti_steward.core import hookimpl

        @hookimpl
        def steward_diagnose(machine):
            return []
        """,
    )
    front.configure('[plugins]\nload = ["smart", "acme"]')
    reason = "has only the hook steward_diagnose, which plugins of diagnose.load are called for"
    own = "is a built-in collector, which diagnose.collectors names"
    assert faults(front) == [
        f"plugins.load: plugin smart: {own}",
        f"plugins.load: plugin acme: {reason}",
    ]
    front.configure('[diagnose]\nload = ["acme"]')
    assert front("check-config").status == 0


def test_programs_and_shadows(front: Front) -> None:
    good = program(front.path, "good", "true")
    loose = program(front.path, "loose", "true")
    os.chmod(loose, 0o777)
    front.configure(
        f"""
        [allocators]
        allocate = ["command:{good} --option", "command:/nonexistent/program", "balanced"]
        relocate = ["command:{loose}", "balanced"]
        [shadow]
        allocate = ["balanced", "command:bin/true", "nosuch"]
        relocate = ["dedicated"]
        """
    )
    assert faults(front) == [
        "allocators.allocate: command:/nonexistent/program: /nonexistent cannot be "
        "opened: No such file or directory",
        f"allocators.relocate: command:{loose}: {loose} can be written to by others than root",
        "shadow.allocate: command:bin/true: 'bin/true' is not an absolute path",
        "shadow.allocate: plugin nosuch: is not a loaded allocator "
        "(loaded: balanced, dedicated, packed)",
        "shadow.relocate: plugin dedicated: does not implement steward_relocate",
    ]


def test_plugin_that_hangs(front: Front) -> None:
    front.plugin("endless", "import time\ntime.sleep(3600)")
    front.configure('[plugins]\nload = ["endless"]\ntime-limit = 0.3')
    assert faults(front) == [
        "plugins.load: plugin endless: took longer than its 0.3 s and was stopped"
    ]


def test_plugin_that_rejects_its_settings(front: Front) -> None:
    front.plugin("rules", RULES + "\n\ndef configure(settings):\n    settings['rack']\n")
    front.configure('[plugins]\nload = ["rules"]')
    assert faults(front) == ["plugins.load: plugin rules: failed: KeyError: 'rack'"]
    front.configure('[plugins]\nload = ["rules"]\n[plugin.rules]\nrack = "b"')
    assert front("check-config").status == 0


def test_two_names_of_one_plugin(front: Front) -> None:
    front.plugin("rules", RULES)
    front.plugin("alias", "import sys, rules\nsys.modules['alias'] = rules\n")
    front.configure('[plugins]\nload = ["rules", "alias"]')
    (found,) = faults(front)
    assert found.startswith("plugins.load: plugin alias: cannot be registered: ")


def test_sample(front: Front) -> None:
    """The sample is a configuration that changes nothing, and names every key."""
    done = front("check-config", "--sample")
    assert (done.status, done.err) == (0, "")
    front.config_file.write_text(done.out)
    assert load_config(str(front.config_file)) == Config()
    uncommented = re.sub(r"^#(\S)", r"\1", done.out, flags=re.MULTILINE)
    front.config_file.write_text(uncommented)
    assert load_config(str(front.config_file)) == Config()
    table = tomllib.loads(uncommented)
    for name in builtins.SECTIONS:
        assert list(table[name]) == [key.name for key in keys(builtins.declaration(name))]


def test_sample_of_plugin_sections(front: Front) -> None:
    """What stands in the sample as an example is right when its marks are taken away."""
    sample = front("check-config", "--sample").out
    examples = re.sub(r"^# (\[|\"|[a-z-]+ = )", r"\1", sample, flags=re.MULTILINE)
    front.config_file.write_text(examples)
    assert load_config(str(front.config_file)).weigh == {"mysite.rules": 1.0}
    assert load_config(str(front.config_file)).plugin == {"mysite.rules": {}}
    assert load_config(str(front.config_file)).named(Nagios).keys() == {"raid"}


def test_sample_of_loaded_plugins(front: Front) -> None:
    """What they declare; those that declare nothing or cannot be loaded are left out."""
    declaring = """
from typing import Annotated, NamedTuple

class CONFIG(NamedTuple):
    row: Annotated[str, "The row of a rack."]
    height: Annotated[int, "Its height units."] = 42

"""
    front.plugin("rules", RULES)
    front.plugin("rack", declaring + RULES)
    front.plugin("crash", "raise ValueError('no such rack')")
    front.plugin("odd", RULES + "\n\nCONFIG = 5\n")
    front.configure('[plugins]\nload = ["rules", "rack", "crash", "odd"]')
    sample = front("check-config", "--sample").out
    assert re.findall(r'^\[plugin."(.*)"\]', sample, re.M) == ["rack"]
    assert sample.split('[plugin."rack"]\n')[1].split("\n\n")[0].splitlines() == [
        "# The row of a rack. Required.",
        "#row = ",
        "# Its height units.",
        "#height = 42",
    ]


def test_sample_can_be_used(front: Front) -> None:
    front.config_file.write_text(front("check-config", "--sample").out)
    assert front("check-config").status == 0


def test_faulty_configuration_stops_every_command(front: Front) -> None:
    front.config_file.write_text("[log]\nlevel = 'loud'\n[history]\nkeep = -1\n")
    for command in (["plugins"], ["explain", "--last"], ["replay"]):
        done = front(*command)
        assert (done.status, done.out) == (1, "")
        assert "history.keep: -1 is not between 0 and 10000; log.level: one of" in done.err


def test_aggregates(front: Front) -> None:
    """Names and expressions are looked at as the allocator would."""
    front.configure(
        """
        [aggregates]
        default-forbidden-prefixes = ["reservation:", "in:"]
        unclaimable = ["a b"]
        [aggregates.groups]
        rack1 = ["a", "!b"]
        [aggregates.units.node1]
        "numa:0" = ["a"]
        [aggregates.pools]
        nas = ["a,b"]
        [aggregates.instances]
        web1 = ["in:a,b", "a,b", "member_of_primary=!!a", "member=a"]
        """
    )
    found = faults(front)
    for fault in (
        "aggregates.default-forbidden-prefixes: 'in:': ",
        "aggregates.unclaimable: 'a b': ",
        "aggregates.groups.rack1: '!b': ",
        "aggregates.units.node1: 'numa:0': ",
        "aggregates.pools.nas: 'a,b': ",
        "aggregates.instances.web1: 'a,b': a list needs",
        "aggregates.instances.web1: 'member_of_primary=!!a': \"!\" stands there twice",
        "aggregates.instances.web1: 'member=a': unknown key 'member'",
    ):
        assert sum(line.startswith(fault) for line in found) == 1, fault
    assert len(found) == 8


def test_the_node_side(front: Front) -> None:
    """Thresholds, plugins, commands and checks are looked at as the diagnosis would."""
    good = program(front.path, "good", "true")
    loose = program(front.path, "loose", "true")
    os.chmod(loose, 0o777)
    front.plugin("rules", RULES)
    front.plugin("acme", RULES.replace("steward_constrain(cluster)", "steward_diagnose()"))
    front.plugin("crash", "raise ValueError('no such rack')")
    front.configure(
        f"""
        [diagnose]
        load = ["acme", "rules", "crash", "nosuch"]
        commands = ["nosuch-command", "*"]
        [collector.md]
        colour = "red"
        [collector.smart]
        colour = "red"
        number = 1
        [collector.fan]
        [plugin.acme]
        anything = true
        [plugin.other]
        [weigh]
        acme = 2
        [nagios.good]
        command = ["{good}"]
        [nagios.loose]
        command = ["{loose}", "-w"]
        """
    )
    found = faults(front)
    for fault in (
        "weigh.acme: no plugin of this name is loaded",
        "plugin.other: no plugin of this name is loaded",
        "collector.md.colour: no such key (known: ",
        "collector.smart.colour: no such key (known: ",
        "collector.smart.number: no such key (known: ",
        "collector.fan: no collector has this name (known: smart, md, ",
        "diagnose.load: plugin rules: does not implement steward_diagnose",
        "diagnose.load: plugin crash: cannot be loaded: ValueError: no such rack",
        "diagnose.load: plugin nosuch: is neither a module nor an entry point of the group ",
        "diagnose.commands: nosuch-command: ",
        f"nagios.loose.command: {loose} can be written to by others than root",
    ):
        assert sum(line.startswith(fault) for line in found) == 1, fault
    assert len(found) == 11


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[diagnose]\nload = ['smart']", "diagnose.load: smart is the name of another source"),
        ("[diagnose]\nload = ['nagios']", "diagnose.load: nagios is the name of another source"),
        ("[diagnose]\nload = ['a:b']", "diagnose.load: 'a:b' is not a source name ("),
        ("[diagnose]\nload = ['a', 'a']", "diagnose.load: a is named twice"),
        ("[diagnose]\ncollectors = ['md', 'md']", "diagnose.collectors: md is named twice"),
        ("[nagios.'a:b']\ncommand = ['/bin/true']", "nagios.a:b: 'a:b' is not a source name ("),
    ],
)
def test_names_of_sources_that_collide(front: Front, text: str, fault: str) -> None:
    front.config_file.write_text(text)
    (found,) = faults(front)
    assert found.startswith(fault)
