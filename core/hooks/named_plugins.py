"""Which plugins the configuration names; an allocation needs only those of ``[plugins] load``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.builtins import PLUGIN_KEYS, BuiltIn, declaration

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config


class Named(NamedTuple):
    """A plugin that a key of the configuration names."""

    name: str
    key: str
    """``section.key``"""
    hook: str
    """what every plugin named there must implement; empty: any hook"""


def named_plugins(config: Config) -> list[Named]:
    """All plugins that the configuration has loaded, built-in ones only where it names them."""
    return [
        Named(name, key, hook) for key, hook in PLUGIN_KEYS.items() for name in _value(config, key)
    ]


def is_used(config: Config, plugin: BuiltIn) -> bool:
    """Whether a built-in plugin takes part: some do only where a key of theirs names them."""
    return not plugin.key or plugin.name in _value(config, plugin.key)


def _value(config: Config, key: str) -> tuple[str, ...]:
    """The value of ``section.key``."""
    section, _, name = key.partition(".")
    values = getattr(config, section, None) or config.section(declaration(section))
    value: tuple[str, ...] = getattr(values, name.replace("-", "_"))
    return value
