"""What the program writes and reads, found in its source: log lines, tags, words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from paths import ROOT

ROOMS: Final = ("core", "allocators", "plugins", "diagnose")
_LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical")
#: Functions that report what is held back -> which argument is its word.
_HOLDING: Final = {"braked": 1, "Held": 1, "hold": 1, "_part": 1, "held_back": 0}
_TAG: Final = re.compile(r"(?:maintd|steward|htools|ganeti:watcher|gnt:daemon|gnt:client):\S*")


@cache
def _nodes() -> tuple[ast.AST, ...]:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    return tuple(node for file in files for node in ast.walk(ast.parse(file.read_text())))


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for node in _nodes():
        if isinstance(node, ast.Call):
            named = node.func
            name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
            yield name, node


def _text(node: ast.AST) -> str | None:
    """A text with ``%s`` for what is not literal; None where all of it is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "%s" for part in node.values)
    return None


def log_lines() -> set[str]:
    """The formats of all lines that are written to the log, without those that are all text."""
    found = {
        _text(call.args[0])
        for name, call in _calls()
        if name in _LEVELS and isinstance(call.func, ast.Attribute) and call.args
    }
    found |= {f"{text}: %s" for text in _failures()}
    return {text for text in found if text and re.sub(r"%\w|\W", "", text)}


def _failures() -> Iterator[str]:
    """What the log says of a failure to report something, without its reason."""
    for name, call in _calls():
        given = call.args[0] if call.args else None
        if name == "Observers" and isinstance(given, ast.Dict):
            yield from (text for key in given.keys if key and (text := _text(key)))
        elif name == "Outlet" and given and (text := _text(given)):
            yield text


def held_words() -> set[str]:
    """The words of what is held back."""
    return {
        word
        for name, call in _calls()
        if name in _HOLDING and len(call.args) > _HOLDING[name]
        for word in [_text(call.args[_HOLDING[name]])]
        if word
    }


def tags() -> set[str]:
    """Tags of Ganeti's objects, and sources of reasons, as far as they are literal."""
    values = {
        node.value
        for node in _nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    bare = {f"{prefix}:" for prefix in ("maintd", "steward")}
    return {value for value in values if _TAG.fullmatch(value)} - bare
