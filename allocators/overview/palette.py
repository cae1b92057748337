"""The colours of pictures and pages; the tests compute their contrast."""

from __future__ import annotations

from typing import Final, NamedTuple


class Palette(NamedTuple):
    """One set of colours, each as ``#rrggbb``."""

    ground: str
    """the background"""
    panel: str
    """the background of a part of the page"""
    text: str
    muted: str
    """text of less weight"""
    link: str
    line: str
    """lines between parts"""
    track: str
    """the part of a bar that is free"""
    used: str
    planned: str
    """the part in use when the planned moves are done"""
    reserved: str
    """the stripes of what is reserved"""
    bad: str
    """text and bars of what is wrong"""
    warn: str
    good: str


LIGHT: Final = Palette(
    ground="#ffffff",
    panel="#f4f6f8",
    text="#1a1f24",
    muted="#4d5862",
    link="#0b57a4",
    line="#c9d1d9",
    track="#e1e6eb",
    used="#2a6fb0",
    planned="#0f766e",
    reserved="#7a5a00",
    bad="#b3261e",
    warn="#7a5200",
    good="#1a6b34",
)

DARK: Final = Palette(
    ground="#12161b",
    panel="#1b2129",
    text="#e8edf2",
    muted="#a9b4bf",
    link="#7db7f5",
    line="#3a444f",
    track="#2b343e",
    used="#62a8ea",
    planned="#4fc1b0",
    reserved="#e0b84c",
    bad="#ff8a80",
    warn="#f0c060",
    good="#7ad391",
)


def variables(palette: Palette) -> str:
    """The colours as variables of a style sheet: ``--used:#2a6fb0;...``."""
    return "".join(f"--{name}:{value};" for name, value in palette._asdict().items())
