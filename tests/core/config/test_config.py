"""The configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ganeti_steward.core import builtins
from ganeti_steward.core.commands.config_texts import sample_config
from ganeti_steward.core.config import load as tested
from ganeti_steward.core.config.declaration import keys
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.diagnose.config.sections import Agent, Diagnose, Nagios


def _load(tmp_path: Path, text: str | bytes) -> Config:
    file = tmp_path / "steward.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(str(file))


def _faults(tmp_path: Path, text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(BadConfig) as caught:
        _load(tmp_path, text)
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(f"configuration {tmp_path}/steward.toml: ")
    return caught.value.faults


def test_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert _load(tmp_path, "") == Config()


def test_sample_is_the_defaults(tmp_path: Path) -> None:
    assert _load(tmp_path, sample_config()) == Config()
    text = re.sub(r"(?m)^#([a-z-]+ = )", r"\1", sample_config())
    assert text.count("\n#") < sample_config().count("\n#")
    assert _load(tmp_path, text) == Config()


@pytest.mark.parametrize("name", builtins.SECTIONS)
def test_every_key_is_in_the_sample_and_explained(name: str) -> None:
    section = sample_config().split(f"[{name}]\n")[1].split("\n\n")[0].splitlines()
    declared = keys(builtins.declaration(name))
    assert [line[1:].split(" = ")[0] for line in section[1::2]] == [key.name for key in declared]
    assert all(re.fullmatch(r"# [A-Z].*[.]", line) for line in section[0::2])


def test_every_value(tmp_path: Path) -> None:
    text = """
        [allocators]
        allocate = ["mysite.rules", "balanced"]
        multi-allocate = ["a"]
        relocate = ["b"]
        allocate-secondary = ["c"]
        time-limit = 1.5
        [plugins]
        load = ["mysite.rules"]
        time-limit = 3
        [history]
        keep = 0
        directory = ""
        [log]
        file = "/x/y.log"
        level = "debug"
        [weigh]
        "mysite.rules" = 2
        [plugin.mysite]
        colour = "blue"
        [diagnose]
        commands = ["raid", "*"]
        [collector.smart]
        wear = 90
        [nagios.raid]
        command = ["/bin/check_raid", "-q"]
        critical = "evacuate"
        [agent]
        repair = true
    """
    read = _load(tmp_path, text)
    kinds = ("allocate", "multi-allocate", "relocate", "allocate-secondary")
    assert [read.chain(kind)[0] for kind in kinds] == ["mysite.rules", "a", "b", "c"]
    assert (read.allocators.time_limit, read.plugins.time_limit) == (1.5, 3)
    assert (read.plugins.load, read.weigh) == (("mysite.rules",), {"mysite.rules": 2.0})
    assert (read.history.keep, read.history.directory) == (0, "")
    assert (read.log.file, read.log.level) == ("/x/y.log", "debug")
    assert read.plugin == {"mysite": {"colour": "blue"}}
    assert read.section(Diagnose).commands == ("raid", "*")
    assert read.section(Agent).repair
    assert read.collector == {"smart": {"wear": 90}}
    assert read.named(Nagios) == {"raid": Nagios(("/bin/check_raid", "-q"), critical="evacuate")}


_BAD = [
    (
        "bogus = 1",
        "bogus: no such section (known: allocators, reserve, shadow, plugins, aggregates, ",
    ),
    ('"a\\nb" = 1', r"'a\nb': no such section"),
    ("log = 1", "log: a section is expected, found the number 1"),
    ("[[log]]", "log: a section is expected, found a list"),
    ("weigh = []", "weigh: a section is expected, found a list"),
    ("plugin = 1979-05-27", "plugin: a section is expected, found a date"),
    ("[plugin]\nx = 1", "plugin.x: a section is expected, found the number 1"),
    ("[log]\nlvel = 1", "log.lvel: no such key (known: file, level)"),
    ("[allocators]\nmulti_allocate = 1", "allocators.multi_allocate: no such key (known: "),
    ("[allocators]\nallocate = 'a'", "a list of names is expected, found the text 'a'"),
    ("[allocators]\nallocate = [1]", "a list of names is expected, it holds the number 1"),
    ("[allocators]\nallocate = ['']", "a list of names is expected, it holds the text ''"),
    ("[allocators]\nallocate = ['a', 'b', 'a']", "allocators.allocate: a is named twice"),
    ("[plugins]\nload = ['a', 'a']", "plugins.load: a is named twice"),
    ("[allocators]\ntime-limit = 0", "allocators.time-limit: 0 is not between 1 and 890"),
    ("[allocators]\ntime-limit = nan", "allocators.time-limit: nan is not between 1 and 890"),
    ("[allocators]\ntime-limit = true", "a number is expected, found true"),
    ("[history]\nkeep = -1", "history.keep: -1 is not between 0 and 10000"),
    ("[history]\nkeep = 1.5", "history.keep: a whole number is expected, found the number 1.5"),
    ("[history]\ndirectory = 'x'", "history.directory: 'x' is not an absolute path"),
    ("[history]\ndirectory = 5", "history.directory: a path is expected, found the number 5"),
    (
        '[log]\nfile = "/a\\u0000"',
        r"log.file: '/a\x00' has characters that do not belong",
    ),
    ("[log]\nlevel = 'loud'", "log.level: one of debug, info, warning, error is expected, found "),
    ("[log]\nlevel = ['info']", "is expected, found a list"),
    ("[aggregates]\ncombine = 'or'", "aggregates.combine: one of union, placement is expected"),
    ("[aggregates]\non-evacuation = 1", "one of strict, prefer is expected, found the number 1"),
    ("[aggregates]\nunclaimable = 'a'", "aggregates.unclaimable: a list of names is expected"),
    ("[aggregates]\ngroups = []", "aggregates.groups: a section is expected, found a list"),
    ("[aggregates.nodes]\nn1 = 'a'", "aggregates.nodes: n1: a list of names is expected"),
    ("[aggregates.units]\nn1 = ['a']", "aggregates.units: n1: a section is expected"),
    ("[aggregates.units.n1]\nu = 1", "aggregates.units: n1: u: a list of names is expected"),
    ("[diagnose]\ncollectors = ['smrat']", "diagnose.collectors: smrat is not one of smart, md, "),
    ("[diagnose]\ncommands = ['a.b']", "diagnose.commands: 'a.b' is not a command name"),
    ("[diagnose]\npool-user = ['*']", "diagnose.pool-user: '*' is not a command name"),
    ("[diagnose]\nseveral-command = '../x'", "'../x' is not a command name (letters, digits"),
    (
        "[diagnose]\nseveral-command = 1",
        "diagnose.several-command: a command name (letters, digits, _ and - only) is "
        "expected, found the number 1",
    ),
    ("[diagnose]\nseveral-status = 'Ok'", "one of live-repair, evacuate, evacuate-failover is"),
    ("[diagnose]\nseveral-status = 'suspect'", "one of live-repair, evacuate, evacuate-fail"),
    ("[diagnose]\nappear-after = 0", "diagnose.appear-after: 0 is not between 1 and 1000"),
    ("[agent]\nport = 70000", "agent.port: 70000 is not between 1 and 65535"),
    ("[agent]\nrepair = 1", "agent.repair: true or false is expected, found the number 1"),
    ("[agent]\naddress = 1", "agent.address: a text is expected, found the number 1"),
    ("nagios = 1", "nagios: a section is expected, found the number 1"),
    ("[nagios]\nraid = 1", "nagios.raid: a section is expected, found the number 1"),
    ("[nagios.raid]\nok = 'Ok'", "nagios.raid: has no command"),
    ("[nagios.raid]\ncommand = '/x'", "nagios.raid.command: a list of words is expected"),
    ("[nagios.raid]\ncommand = ['x']", "raid.command: the first word must be a program's absolute"),
    ("[nagios.raid]\ncommand = ['/x']\nbad = 1", "nagios.raid.bad: no such key (known: command, "),
    (
        "[nagios.raid]\ncommand = ['/x']\nwarning = 'ok'",
        "nagios.raid.warning: one of Ok, suspect, live-repair, evacuate, evacuate-failover, ",
    ),
    ("[collector]\nsmart = 1", "collector.smart: a section is expected, found the number 1"),
    ("[weigh]\nx = -1", "weigh.x: -1 is not between 0 and 1000000"),
    ("[weigh]\nx = 'y'", "weigh.x: a number is expected, found the text 'y'"),
]


@pytest.mark.parametrize(("text", "fault"), _BAD, ids=[text for text, _ in _BAD])
def test_fault(tmp_path: Path, text: str, fault: str) -> None:
    (found,) = _faults(tmp_path, text)
    assert fault in found
    assert re.match(r"[\w'][\w.\\' -]*: ", found), "the path of the key leads"


@pytest.mark.parametrize(
    "text",
    ["[log", "a = 1\na = 2", "x = " + "9" * 5000, "x = " + "[" * 10_000, b"\xff", b"x = '\x00'"],
    ids=["cut off", "twice", "endless number", "deep", "no UTF-8", "NUL"],
)
def test_no_toml(tmp_path: Path, text: str | bytes) -> None:
    (found,) = _faults(tmp_path, text)
    assert found.startswith("is not valid TOML: ")


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    found = _faults(tmp_path, "".join(f"x{number} = 1\n" for number in range(14)))
    assert [fault.split(":")[0] for fault in found] == [f"x{number}" for number in range(14)]
    with pytest.raises(BadConfig, match=r"x9: .*; and 4 more$"):
        load_config(str(tmp_path / "steward.toml"))


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({}, tested.DEFAULT_PATH),
        ({tested.ENVIRONMENT: ""}, tested.DEFAULT_PATH),
        ({tested.ENVIRONMENT: "/x"}, "/x"),
    ],
)
def test_path(environment: Mapping[str, str], path: str) -> None:
    assert config_path(environment) == path


def test_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(tmp_path / "missing.toml")
    with pytest.raises(BadConfig, match=f"configuration {missing}: the file does not exist"):
        load_config(missing)
    # Only the default file may be missing.
    monkeypatch.setattr(tested, "DEFAULT_PATH", missing)
    assert load_config(missing) == Config()


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="it is not a regular file"):
        load_config(str(tmp_path))


@pytest.mark.parametrize("kind", ["allocate", "multi-allocate", "relocate", "allocate-secondary"])
def test_default_chain(kind: str) -> None:
    chain: Any = Config().chain(kind)
    assert chain == ("balanced",)
