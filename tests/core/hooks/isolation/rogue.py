"""Plugins with one hook, whose body is given."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sites import Site


def plugin(site: Site, hook: str, body: str, name: str = "rogue") -> None:
    """Write a plugin whose hook does this; ``cluster`` is at hand."""
    text = indent(dedent(body).strip(), "    ")
    site.plugin(name, f"@hookimpl\ndef {hook}(cluster):\n{text}\n")
