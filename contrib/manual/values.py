#!/usr/bin/env python3
"""Print the manual's page of what plugins get: classes, their members and units, from the code.

.venv/bin/python contrib/manual/values.py > docs/reference/values.md
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parents[2]
#: File -> the classes of it that plugins get, in the order of the page.
_CLASSES: Final = {
    "core/model/cluster.py": (
        *("Instance", "Disk", "Node", "Group", "Policy", "MinMax", "Spec", "Cluster"),
    ),
    "diagnose/model/machine.py": ("Machine", "Space", "Reading"),
}
#: Members that mean nothing but their name.
_PLAIN: Final = {
    "name": "its name",
    "uuid": "Ganeti's uuid",
    "tags": "its tags",
    "disks": "in their order",
    "groups": "sorted by name, then by uuid",
    "nodes": "sorted by name",
    "instances": "sorted by name",
    "min": "the lower end",
    "max": "the upper end",
    "chip": "the name of its chip",
}
#: To the founding papers.
_REFERENCE: Final = re.compile(r" \(allocation [0-9.]+\)")
_HEAD: Final = """\
# What plugins get

For plugin authors: the classes that hooks get, with all members. They are read-only. Empty texts
and `None` mean: not sent, or not known. `sent` has everything that Ganeti has sent. The
[placement rules](../explanation/placement-rules.md) explain how figures are used.
`contrib/manual/values.py` makes this page from the code.
"""


class Member(NamedTuple):
    """One field, property or method of a class."""

    name: str
    type: str
    meaning: str
    """one sentence; empty: the code has none"""


def members(file: str, name: str) -> tuple[str, list[Member]]:
    """The first sentence about a class, and its public members in the order of the code."""
    tree = ast.parse((_ROOT / file).read_text())
    (node,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
    return ast.get_docstring(node) or "", [*_members(node)]


def _members(node: ast.ClassDef) -> Iterator[Member]:
    for one, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            meaning = _phrase(_text(after)) or _PLAIN.get(one.target.id, "")
            yield Member(one.target.id, ast.unparse(one.annotation), meaning)
        elif isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            text = _phrase((ast.get_docstring(one) or "").split("\n\n")[0])
            called = [] if one.decorator_list else [*map(ast.unparse, one.args.args[1:])]
            if one.args.vararg:
                called.append(f"*{ast.unparse(one.args.vararg)}")
            name = one.name if one.decorator_list else f"{one.name}({', '.join(called)})"
            yield Member(name, ast.unparse(one.returns) if one.returns else "", text)


def _text(statement: ast.stmt | None) -> str:
    """A string that stands for itself; empty for any other statement."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return str(statement.value.value)
    return ""


def _phrase(text: str) -> str:
    """A docstring as an item of a list."""
    text = " ".join(text.split()).removesuffix(".").replace("``", "`")
    text = _REFERENCE.sub("", text)
    keeps = text.startswith(("Ganeti", "MiB", "CPU"))
    return text if keeps else text[:1].lower() + text[1:]


def _line(one: Member) -> str:
    """One member as an item of a list."""
    type_ = one.type.replace(" | None", " or None")
    return f"- `{one.name.replace(' | None', ' or None')}` (`{type_}`)" + (
        f": {one.meaning}" if one.meaning else ""
    )


def page() -> str:
    """The page, as Markdown."""
    parts = [_HEAD]
    for file, names in _CLASSES.items():
        for name in names:
            about, found = members(file, name)
            parts += [
                f"## {name}",
                "",
                _REFERENCE.sub("", about).replace("``", "`"),
                "",
                *map(_line, found),
                "",
            ]
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
