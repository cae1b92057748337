"""The section of the configuration that each plugin has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti_steward.core.builtins import built_in, declaration
from ganeti_steward.core.errors import BadSettings

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config


def configure(config: Config, name: str, plugin: object) -> None:
    """Pass a plugin its section, checked if its ``CONFIG`` declares one; raises BadSettings."""
    section, declared = _section(name), getattr(plugin, "CONFIG", None)
    kind, _, key = section.partition(".")
    settings: Any
    if not key:
        settings = config.section(declaration(kind))
    else:
        settings = getattr(config, kind).get(key, {})
        if declared is not None:
            settings = _checked(name, section, declared, settings)
    given_to = getattr(plugin, "configure", None)
    if given_to is not None:
        given_to(settings=settings)


def _checked(name: str, section: str, declared: Any, given: Mapping[str, Any]) -> Any:
    """The section by its declaration."""
    from ganeti_steward.core.config.declaration import read_section  # few plugins need it

    faults: list[str] = []
    settings = read_section(declared, section, given, faults)
    if faults:
        raise BadSettings(name, faults)
    return settings


def is_configured(config: Config, name: str) -> bool:
    """Whether a plugin's section holds anything but defaults."""
    kind, _, key = _section(name).partition(".")
    return bool(getattr(config, kind).get(key)) if key else kind in config.sections


def _section(plugin: str) -> str:
    """The section a plugin is configured with, ``kind.name`` or a room's own."""
    known = built_in(plugin)
    return known.section if known and known.section else f"plugin.{plugin}"
