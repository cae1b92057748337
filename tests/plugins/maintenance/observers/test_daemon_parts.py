"""What is reported of the daemon of a node: what decides how it acts, and no content of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.ganeti.hmac_key import NoKey
from ganeti_steward.plugins import daemon_parts as module
from ganeti_steward.plugins.daemon_parts import (
    DaemonParts,
    daemon_parts,
    differing,
    read_parts,
    reported_parts,
)

KEY: Final = b"a key of the cluster\n"
OTHER: Final = b"another key, of later\n"
SECRET: Final = "https://example.org/hook?token=Hunter2"


def config(text: str) -> Config:
    return parse_config("steward.toml", text.encode())


def differ(one: str, other: str) -> tuple[str, ...] | None:
    return differing(daemon_parts(config(one), KEY), daemon_parts(config(other), KEY))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", ""),
        ("", '[maintd]\nmode = "observe"\nhold-time = 300'),
        ('[maintd]\nmode = "act"\nport = 1', '[maintd]\nport = 1\n# x\nmode = "act"'),
        ('[maintd]\naddress = "192.0.2.1"', '[maintd]\naddress = "192.0.2.2"'),
        ('[log]\nlevel = "debug"', '[http]\nnames = ["example.org"]'),
        ("[diagnose]\nappear-after = 7", "[collector.md]\n[agent]\nport = 7"),
        ("[harep]\njob-delay = 7", "[rebalance]\nthreshold = 7"),
        ("[plugin.other]\nx = 1", "[plugin.other]\nx = 2"),
        ("[history]\nkeep = 3", "[shadow]"),
    ],
)
def test_what_changes_nothing_does_not_differ(one: str, other: str) -> None:
    assert differ(one, other) == ()


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        ("", '[maintd]\nmode = "act"', ("[maintd]",)),
        ("", '[maintd]\nroutine = ["harep"]', ("[harep]", "[maintd]")),
        (
            '[maintd]\nroutine = ["harep"]\n[harep]\njob-delay = 7',
            '[maintd]\nroutine = ["harep"]',
            ("[harep]",),
        ),
        ("[aggregates]\n", "[weigh]\nx = 2", ("[weigh]",)),
        ("", "[allocators]\ntime-limit = 7", ("[allocators]",)),
        (
            '[plugins]\nload = ["site"]\n[plugin.site]\nat = 2026-01-01',
            '[plugins]\nload = ["site"]\n[plugin.site]\nat = 2026-01-02',
            ("[plugin.site]",),
        ),
        ("", '[plugins]\nload = ["site"]', ("[plugins]", "plugin site")),
    ],
)
def test_what_differs_is_named(one: str, other: str, parts: tuple[str, ...]) -> None:
    assert differ(one, other) == parts


def test_another_version_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    here = daemon_parts(Config(), KEY)
    monkeypatch.setattr(module, "VERSION", "99")
    assert differing(here, daemon_parts(Config(), KEY)) == ("version of the program",)


def test_files_of_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they lie, they are the same; one that is changed, added or missing differs."""
    used = config('[plugins]\nload = ["my_site.rules"]')
    found: list[DaemonParts] = []
    for name, more in (("a", ""), ("b", ""), ("c", "changed"), ("d", "added"), ("e", "missing")):
        folder = tmp_path / name / "my_site"
        if more != "missing":
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("")
            (folder / "rules.py").write_text(f"x = {more == 'changed'}")
        if more == "added":
            (folder / "more.py").write_text("")
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(tmp_path / name))
            found.append(daemon_parts(used, KEY))
    assert [differing(found[0], one) for one in found] == [
        (),
        (),
        ("plugin my_site.rules",),
        ("plugin my_site.rules",),
        ("plugin my_site.rules",),
    ]


def test_no_content_is_in_it() -> None:
    """Nor can a guess be compared without the key."""
    text = f'[maintd]\nwebhook = "{SECRET}"'
    one, other = (daemon_parts(config(text), key) for key in (KEY, OTHER))
    assert one.digests is not None
    assert other.digests is not None
    assert "Hunter2" not in json.dumps(one._asdict())
    assert {len(digest) for digest in one.digests.values()} == {64}
    assert not {*one.digests.values()} & {*other.digests.values()}
    assert differing(one, other) is None


def test_a_renewed_key_is_no_difference() -> None:
    assert differing(daemon_parts(Config(), KEY), daemon_parts(Config(), OTHER)) is None


def test_what_is_reported_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "steward.toml"
    path.write_text('[maintd]\nmode = "act"')
    sent = json.loads(json.dumps(reported_parts(str(path), lambda: KEY)))
    read = read_parts(sent)
    assert read == daemon_parts(config(path.read_text()), KEY)
    path.write_text('[maintd]\nmode = "never"')
    faulty = read_parts(json.loads(json.dumps(reported_parts(str(path), lambda: KEY))))
    assert read is not None
    assert faulty is not None
    assert differing(read, faulty) == ("the file has faults or cannot be read",)
    assert "never" not in json.dumps(faulty)


def test_a_fault_in_a_section_of_others_is_none(tmp_path: Path) -> None:
    path = tmp_path / "steward.toml"
    path.write_text("[diagnose]\nnothing = 1")
    read = read_parts(reported_parts(str(path), lambda: KEY))
    assert read == daemon_parts(Config(), KEY)


def test_without_a_key_nothing_is_known(tmp_path: Path) -> None:
    def key() -> bytes:
        raise NoKey("there is none")

    assert reported_parts(str(tmp_path / "none"), key) == {}
    assert read_parts({}) is None


@pytest.mark.parametrize(
    "given",
    [
        None,
        5,
        [],
        {"key": 5, "digests": {}},
        {"key": "k", "digests": []},
        {"key": "k", "digests": {"a": 5}},
        {"key": "k", "digests": {"a": "x" * 1000}},
        {"key": "k", "digests": {str(n): "x" for n in range(1000)}},
    ],
)
def test_what_no_agent_reports_is_not_known(given: object) -> None:
    assert read_parts(given) is None


def test_names_of_another_node_do_no_harm() -> None:
    read = read_parts({"key": "k", "digests": {"\x1b[2Ja\nb" + "x" * 1000: "0"}})
    assert read is not None
    assert read.digests is not None
    (name,) = read.digests
    assert name.isprintable()
    assert len(name) <= 200
