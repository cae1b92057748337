"""A complete configuration file with every default, made from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ganeti_steward.core import builtins
from ganeti_steward.core.config.declaration import REQUIRED, Key, keys
from ganeti_steward.core.config.values import DEFAULT_PATH
from ganeti_steward.core.config.written import toml


def sample_config(plugins: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The file, each key commented.

    ``plugins``: declarations of plugins' sections by the names of the plugins.
    """
    lines = [
        f"# {DEFAULT_PATH}: configuration of Ganeti Steward.",
        "# Every value shown is the default; gnt-steward check-config checks the file.",
    ]
    for name in builtins.SECTIONS:
        lines += _section(name, builtins.declaration(name))
    for name, declared in plugins.items():
        lines += _section(f'plugin."{name}"', declared)
    lines += ["", "# [weigh]", "# Weight of a plugin's costs, by its name."]
    lines += ['# "mysite.rules" = 1.0', "", '# [plugin."mysite.rules"]']
    lines += ["# A plugin's own settings.", "", "# [collector.smart]"]
    lines += ["# A collector's thresholds; docs/reference/configuration.md lists them."]
    lines += ["", "# [nagios.raid]", "# A check of Nagios as a source of the diagnosis."]
    lines += _example(keys(builtins.declaration("nagios")))
    return "\n".join(lines) + "\n"


def _section(name: str, declared: Any) -> Iterator[str]:
    yield from ("", f"[{name}]")
    for key in keys(declared):
        needed = key.default is REQUIRED
        text = " ".join(filter(None, [key.text, "Required." if needed else ""]))
        yield from [f"# {text}"] if text else []
        yield f"#{key.name} = {'' if needed else toml(key.default)}"


def _example(described: list[Key]) -> Iterator[str]:
    """The keys of a check; an example where one has no default."""
    for key in described:
        value = ("/usr/lib/nagios/plugins/check_raid",) if key.default is REQUIRED else key.default
        yield f"# {key.text}"
        yield f"# {key.name} = {toml(value)}"
