"""Each program needs its own sections; faults in the others are reported and stop nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from paths import CAPTURES

from ganeti_steward.core.config import load
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config

if TYPE_CHECKING:
    from front import Front

FILE = str(CAPTURES / "allocate-drbd.in.json")

#: A fault that an allocation need not know of, and what is reported about it.
FOREIGN = {
    "[diagnose]\nintervall = 5": "diagnose.intervall: no such key (known: ",
    "[diagnos]\ncommands = []": "diagnos: no such section (did you mean diagnose? known: ",
    "[agent]\nport = 70000": "agent.port: 70000 is not between 1 and 65535",
    "[maintd]\nmode = 'on'": "maintd.mode: one of ",
    "[nagios.raid]\nok = 'Ok'": "nagios.raid: has no command",
    "[collector]\nsmart = 1": "collector.smart: a section is expected",
    "[lighting]\ncolour = 'red'": "lighting: no such section (known: ",
}

#: A fault that an allocation must not pass over.
OWN = {
    "[allocators]\nallocat = []": "allocators.allocat: no such key",
    "[aggregate]\ncombine = 'union'": "aggregate: no such section (did you mean aggregates? ",
    "[aggregates]\ncombine = 'or'": "aggregates.combine: one of ",
    "[plugins]\nload = 'rules'": "plugins.load: a list of names is expected",
    "[weigh]\nrules = -1": "weigh.rules: -1 is not between",
    "[shadow]\nallocate = 'hail'": "shadow.allocate: a list of names",
}


def with_log(front: Front, text: str) -> None:
    front.write_configuration(
        f'[log]\nfile = "{front.path}/steward.log"\n[history]\nkeep = 0', text
    )


@pytest.mark.parametrize(("text", "fault"), FOREIGN.items(), ids=[*FOREIGN])
def test_an_allocation_goes_on(front: Front, text: str, fault: str) -> None:
    with_log(front, text)
    done = front.allocate(FILE)
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["success"] is True
    warning, _ = (front.path / "steward.log").read_text().splitlines()
    assert f" WARNING configuration {front.config_file}: {fault}" in warning
    assert warning.endswith("(a section that is not used here)")
    command = front("explain", FILE)
    assert command.status == 0
    assert command.err.startswith(f"Note: configuration {front.config_file}: {fault}")
    checked = front("check-config")
    assert checked.status == 1
    assert checked.out.startswith(f"{front.config_file}: {fault}")


@pytest.mark.parametrize(("text", "fault"), OWN.items(), ids=[*OWN])
def test_an_allocation_stops(front: Front, text: str, fault: str) -> None:
    with_log(front, f"[diagnose]\nintervall = 5\n{text}")
    done = front.allocate(FILE)
    assert (done.status, done.out) == (1, "")
    # Both can be corrected at once.
    assert fault in done.err
    assert "diagnose.intervall: no such key" in done.err


@pytest.mark.parametrize(
    ("command", "own", "foreign"),
    [
        ("diagnose", "[diagnose]\nx = 1", "[diagnose]\ncollectors = []\n[allocators]\nx = 1"),
        ("plugins", "[diagnose]\nx = 1", "[maintd]\nx = 1"),
        ("balance", "[allocators]\nx = 1", "[maintd]\nx = 1"),
    ],
)
def test_each_command_needs_its_own(front: Front, command: str, own: str, foreign: str) -> None:
    arguments = {"diagnose": ("--no-state",), "balance": ("--file", FILE)}.get(command, ())
    front.write_configuration(foreign)
    done = front(command, *arguments)
    assert done.err.startswith("Note: configuration "), done
    assert "x: no such key" in done.err
    front.write_configuration(own)
    done = front(command, *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"gnt-steward {command}: configuration ")


def test_what_is_faulty_is_not_used(front: Front) -> None:
    front.write_configuration("[agent]\nport = 70000\nrepair = true\n[history]\nkeep = 5")
    config = load_config(str(front.config_file), ["history"])
    assert config.history.keep == 5
    assert config.sections["agent"].port == 1817
    assert config.sections["agent"].repair
    assert len(config.warnings) == 1


def test_all_faults_in_one_pass(front: Front) -> None:
    """Keys of the file, plugins that it loads, and several of one list."""
    front.plugin("crash", "raise ValueError('no such rack')")
    front.write_configuration(
        """
        [log]
        level = "loud"
        [plugins]
        load = ["crash", "nosuch"]
        [diagnose]
        collectors = ["smrat", "md", "mdd"]
        [aggregates]
        combine = "or"
        unclaimable = ["a b"]
        [allocators]
        allocate = ["hial"]
        """
    )
    lines = front("check-config").out.splitlines()
    found = [line.removeprefix(f"{front.config_file}: ") for line in lines]
    for fault in (
        "log.level: one of ",
        "plugins.load: plugin crash: cannot be loaded: ValueError: no such rack",
        "plugins.load: plugin nosuch: is neither ",
        "diagnose.collectors: smrat, mdd are not one of smart, md, ",
        "aggregates.combine: one of ",
        "aggregates.unclaimable: 'a b': ",
    ):
        assert sum(line.startswith(fault) for line in found) == 1, fault


def test_a_list_that_cannot_be_read_has_no_other_faults(front: Front) -> None:
    """The plugins it would load are not missing."""
    front.write_configuration(
        """
        [plugins]
        load = ["rules", "rules"]
        [allocators]
        allocate = ["rules"]
        [weigh]
        rules = 2
        [plugin.rules]
        """
    )
    assert front("check-config").out == f"{front.config_file}: plugins.load: rules is named twice\n"


def test_there_is_no_file(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(front.path / "missing.toml")
    monkeypatch.setattr(load, "DEFAULT_PATH", missing)
    monkeypatch.delenv("GNT_STEWARD_CONFIG")
    done = front("check-config")
    assert done.status == 0
    assert done.out == f"{missing}: there is no such file; every key has its default\n"
    assert load_config(missing) == Config()
