"""What ``check-config`` prints of the declarations: a sample file, and the reference page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.core import builtins
from ganeti_steward.core.config.declaration import REQUIRED, Key, keys
from ganeti_steward.core.config.parse import WEIGHT
from ganeti_steward.core.config.values import DEFAULT_PATH
from ganeti_steward.core.config.written import toml

_TOP: Final = """\
# Configuration reference

For admins: every section and key of `/etc/ganeti/steward.toml`, a TOML file. Each line has a key,
its default, what its value may be, and its meaning. A missing key has its default.
`gnt-steward check-config --reference` prints this page.

"""

#: What faults do, which program uses what, and words; paragraphs with code in backquotes.
ABOUT: Final = """\
A fault stops the programs that use its section; others only warn, in the log or on standard error.
An unknown section is treated as the known one with the most similar name; if none is similar, it
stops nothing. All programs use `plugins`, `plugin.*` and `log`; the allocator and commands about
placement also `allocators`, `reserve`, `shadow`, `aggregates`, `history` and `weigh`; diagnosis and
agent `diagnose`, `agent`, `http`, `collector.*` and `nagios.*`; the maintenance daemon `maintd`,
`http`, `harep`, `rebalance`, `allocators`, `reserve`, `aggregates` and `weigh`.

A status is `Ok` (not reported), `suspect`, `live-repair`, `evacuate` or `evacuate-failover`. Paths
are absolute; an empty text means none. Patterns are those of a shell: `*`, `?`, `[...]`.
"""

#: The collectors on the page about storage.
_OF_STORAGE: Final = ("smart", "md", "lvm", "drbd", "zfs")

_WEIGH: Final = f"""\
Weights of the costs of plugins: the plugin's name = a {WEIGHT.text}. The default is 1."""

_PLUGIN: Final = """\
The settings of a plugin, by the name it is loaded with. The plugin defines the keys;
`gnt-steward check-config` checks them if the plugin declares them."""


class ReferenceSection(NamedTuple):
    """One section of the reference."""

    title: str
    """as in the file, with brackets"""
    text: str
    """what it is for, with code in backquotes"""
    rows: Sequence[Sequence[Key]] = ()
    """the keys in the order of the declaration; those of one row differ in their names only"""


def reference_page() -> str:
    """The page in Markdown."""
    return "".join([_TOP, ABOUT, *map(_markdown, sections())])


def sections() -> Iterator[ReferenceSection]:
    """All sections of the file."""
    for name in builtins.SECTIONS:
        yield _section(name, builtins.declaration(name))
    for plugin in builtins.BUILT_INS:
        if plugin.section.startswith("collector."):
            yield _section(plugin.section, builtins.target(plugin.target).CONFIG)
    for kind in builtins.NAMED_SECTIONS:
        yield _section(f"{kind}.NAME", builtins.declaration(kind))
    yield ReferenceSection("[weigh]", _WEIGH)
    yield ReferenceSection("[plugin.NAME]", _PLUGIN)


def _section(name: str, declaration: Any) -> ReferenceSection:
    text = (
        " ".join(declaration.__doc__.partition("\n\n")[0].split())
        .partition(": ")[2]
        .replace("``", "`")
    )
    rows: dict[tuple[str, str, str], list[Key]] = {}
    for key in keys(declaration):
        rows.setdefault((key.kind.text, key.text, default_of(key)), []).append(key)
    return ReferenceSection(f"[{name}]", text[:1].upper() + text[1:], [*rows.values()])


def default_of(key: Key) -> str:
    """The default of a key as it would be in the file, or that it has none."""
    return "(required)" if key.default is REQUIRED else f"`{toml(key.default)}`"


def _markdown(section: ReferenceSection) -> str:
    """One section; the page of a collector describes its faults."""
    name = section.title[1:-1].removeprefix("collector.")
    link = f"See [{name}](collectors-{'storage' if name in _OF_STORAGE else 'host'}.md#{name})."
    rows: dict[str, list[str]] = {}
    for key in (key for alike in section.rows for key in alike):
        on_page = key.kind.text == "status" or key.name.endswith("-above")
        text = link if on_page and name in builtins.COLLECTORS else key.text
        after = f" ({default_of(key)}; {key.kind.text}): {text}\n"
        rows.setdefault(after, []).append(f"`{key.name}`")
    text = "".join(f"- {', '.join(names)}{after}" for after, names in rows.items())
    return f"\n## {section.title}\n\n{section.text}\n" + (f"\n{text}" if text else "")


# -- the sample: a complete file with every default


def sample_config(plugins: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The file, each key commented.

    ``plugins``: declarations of plugins' sections by the names of the plugins.
    """
    lines = [
        f"# {DEFAULT_PATH}: configuration of Ganeti Steward.",
        "# Every value shown is the default; gnt-steward check-config checks the file.",
    ]
    for name in builtins.SECTIONS:
        lines += _sample_section(name, builtins.declaration(name))
    for name, declared in plugins.items():
        lines += _sample_section(f'plugin."{name}"', declared)
    lines += ["", "# [weigh]", "# Weight of a plugin's costs, by its name."]
    lines += ['# "mysite.rules" = 1.0', "", '# [plugin."mysite.rules"]']
    lines += ["# A plugin's own settings.", "", "# [collector.smart]"]
    lines += ["# A collector's thresholds; docs/reference/configuration.md lists them."]
    lines += ["", "# [nagios.raid]", "# A check of Nagios as a source of the diagnosis."]
    lines += _nagios_example(keys(builtins.declaration("nagios")))
    return "\n".join(lines) + "\n"


def _sample_section(name: str, declared: Any) -> Iterator[str]:
    yield from ("", f"[{name}]")
    for key in keys(declared):
        needed = key.default is REQUIRED
        text = " ".join(filter(None, [key.text, "Required." if needed else ""]))
        yield from [f"# {text}"] if text else []
        yield f"#{key.name} = {'' if needed else toml(key.default)}"


def _nagios_example(described: list[Key]) -> Iterator[str]:
    """The keys of a check; an example where one has no default."""
    for key in described:
        value = ("/usr/lib/nagios/plugins/check_raid",) if key.default is REQUIRED else key.default
        yield f"# {key.text}"
        yield f"# {key.name} = {toml(value)}"
