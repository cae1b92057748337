#!/usr/bin/env python3
"""Complete tests/data/diagnose/kernel/messages.toml from the sources of kernels.

contrib/manual/kernel_messages.py 6.1 6.12      # fetches Debian's package linux-source-6.1, ...
contrib/manual/kernel_messages.py /usr/src/linux-source-6.1    # a tree; its name says which kernel

By hand, for each message: its file and format, a line of it, and what the collector makes of that
(``family``, ``source``, ``fault``; without them nothing).  ``words`` are strings of files that
stand in the line.  ``level_in`` names the function that gives the level to the one that prints.
``priority`` says which of several levels of a function it is.  A message of several lines ends with
the first.  ``[[call]]`` is what a macro or a function of a driver puts before its format and behind
it, and in which file which words show that.

Looked up, for each kernel that has the message: the function, what it calls, and the priority.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).parents[2] / "tests/data/diagnose/kernel/messages.toml"
_NAMES: Final = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
#: By the end of a function's name or of KERN_...; the default is that of the kernel's build.
_LEVELS: Final = {**{name: n for n, name in enumerate(_NAMES)}, "warning": 4, "default": 4}
#: Files whose pr_fmt is that of another file.
_PR_FMT: Final = {
    "arch/x86/kernel/cpu/mce/core.c": "arch/x86/kernel/cpu/mce/internal.h",
    "kernel/rcu/tree_exp.h": "kernel/rcu/tree.c",
    "kernel/rcu/tree_stall.h": "kernel/rcu/tree.c",
}
_STRING: Final = r'"(?:\\.|[^"\\])*"'
_COMMENT: Final = re.compile(rf"({_STRING}|'(?:\\.|[^'\\])')|/\*.*?\*/|//[^\n]*", re.DOTALL)
_TOKEN: Final = re.compile(rf"{_STRING}|[(),;{{}}]")
_CALL: Final = re.compile(
    r"\b(\w*(?:printk|_(?:emerg|alert|crit|err|warn|notice|info)(?![a-z]))\w*"
    r"|cper_estatus_print|ext4_msg|ql_log)\s*\("
)


@cache
def code(tree: Path, file: str) -> str:
    """A file without comments; empty if the kernel does not have it."""
    text = (tree / file).read_text(errors="replace") if (tree / file).is_file() else ""
    return _COMMENT.sub(lambda one: one[1] or "", text)


def _arguments(text: str, at: int) -> list[str]:
    """The arguments of the call whose parenthesis is before ``at``; none if it is not a call."""
    depth, start, found = 0, at, list[str]()
    for one in _TOKEN.finditer(text, at):
        if depth == 0 and one[0] in ",)":
            found.append(text[start : one.start()])
            start = one.end()
            if one[0] == ")":
                return found
        if one[0] in ";{}":
            break
        depth += {"(": 1, ")": -1}.get(one[0], 0)
    return []


def _format(argument: str, text: str) -> str:
    """The strings and macros of an argument, up to the first end of a line."""
    joined = ""
    for part in re.findall(rf"{_STRING}|\w+", argument):
        if part.startswith('"'):
            joined += part[1:-1]
        elif part == "HW_ERR":
            joined += "[Hardware Error]: "
        elif defined := re.search(rf'#define\s+{part}\s+"([^"]*)"', text):
            joined += defined[1]
    return re.sub(r"\\(.)", r"\1", joined.partition("\\n")[0])


def _levels(text: str) -> set[int]:
    names = re.findall(r"\b(?:KERN|pr)_([a-z]+)\b", re.sub(_STRING, "", text), re.IGNORECASE)
    return {_LEVELS[name.lower()] for name in names if name.lower() in _LEVELS}


@cache
def calls(tree: Path, file: str) -> list[tuple[str, int, str, int | None]]:
    """All calls in a file that print: name, place, format, and level if no variable has it."""
    text, found = code(tree, file), []
    for one in _CALL.finditer(text):
        if arguments := _arguments(text, one.end()):
            first = next((part for part in arguments if '"' in part), arguments[0])
            end = re.search(r"_([a-z]+)(?:_tag|_rl|_once|_ratelimited)?$", one[1])
            level = min(_levels("".join(arguments)), default=_LEVELS.get(end[1]) if end else None)
            found.append((one[1], one.start(), _format(first, text), level))
    return found


def _around(tree: Path, file: str, name: str, at: int) -> Iterator[tuple[str, str]]:
    """What may stand before and behind the format of a call."""
    named = [row for row in read()["call"] if row["call"] == name]
    for row in named:
        if row["words"] in " ".join(code(tree, row["file"]).split()):
            yield row.get("before", ""), row.get("behind", "")
    home = code(tree, _PR_FMT[file]) if file in _PR_FMT else code(tree, file)[:at]
    defined = re.findall(r'#define\s+pr_fmt\(fmt\)\s+(?:"([^"]*)"\s*)?fmt', home)
    own = defined[-1] if defined else ""
    kind = name.partition("_")[0]
    if kind in ("dev", "pci"):
        uses = "#define dev_fmt pr_fmt" in home and not name.endswith("printk")
        yield "%s %s: " + own * uses, ""
    elif kind in ("netdev", "netif"):
        yield from (("%s %s %s: ", ""), ("%s: ", ""))
    elif not named:
        yield own * (kind == "pr"), ""


def _function(text: str, at: int) -> tuple[str, str]:
    """The name and the body of the function around a place."""
    start = max(text.rfind("\n{", 0, at), 0)
    header = re.split(r"\n\}|;|\n\n|^#.*$", text[:start], flags=re.MULTILINE)[-1]
    name = re.search(r"(\w+)\s*\(", header)
    return name[1] if name else "", text[start : text.find("\n}", at)]


def printed(tree: Path, row: Mapping[str, Any]) -> list[Any] | None:
    """Function, call and priority in a kernel that has the message; raises ValueError."""
    for file, words in row.get("words", ()):
        if not any(words in one for one in re.findall(_STRING, code(tree, file))):
            return None
    for name, at, form, given in calls(tree, row["file"]):
        around = _around(tree, row["file"], name, at)
        if all(row["format"] != before + form + behind for before, behind in around):
            continue
        function, body = _function(code(tree, row["file"]), at)
        levels = {given} if given is not None else _levels(body)
        if "level_in" in row:
            file, giver = row["level_in"]
            start = re.search(rf"\b{giver}\([^;{{}}]*\n\{{\n", code(tree, file))
            levels = _levels(_function(code(tree, file), start.end())[1]) if start else set()
        level = row.get("priority", min(levels, default=_LEVELS["default"]))
        if (levels - {level}) and (level not in levels or "priority" not in row):
            raise ValueError(f"{row['file']}: {row['format']}: its priority is one of {levels}")
        return [function, name, level]
    return None


@cache
def read() -> dict[str, list[dict[str, Any]]]:
    """The table: ``message`` and ``call``."""
    return tomllib.loads(TABLE.read_text())


def made(trees: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The messages, with what these kernels have; raises ValueError."""
    rows = []
    for row in read()["message"]:
        found = {name: place for name, tree in trees.items() if (place := printed(tree, row))}
        rows.append({key: value for key, value in row.items() if key not in trees} | found)
    return rows


def unpacked(name: str, folder: Path) -> Path:
    """The files of the table in Debian's package of a kernel; raises CalledProcessError."""
    files = {*_PR_FMT.values(), *(row["file"] for rows in read().values() for row in rows)}
    for row in read()["message"]:
        files |= {*(file for file, _ in row.get("words", ())), *row.get("level_in", ())[:1]}
    subprocess.run(["apt-get", "-q", "download", f"linux-source-{name}"], cwd=folder, check=True)
    # What only other kernels have is not found, which is an error for tar.
    source = "dpkg-deb --fsys-tarfile linux-source-$0_*.deb | tar -xO --wildcards '*.tar.xz'"
    command = ("sh", "-c", f'{source} | tar -xJ "$@"; rm linux-source-$0_*.deb', name)
    wanted = (f"linux-source-{name}/{file}" for file in sorted(files))
    subprocess.run([*command, *wanted], cwd=folder, check=False, capture_output=True)
    return folder / f"linux-source-{name}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trees = {}
        for one in sys.argv[1:]:
            tree = Path(one) if Path(one).is_dir() else unpacked(one, Path(folder))
            trees[tree.name.removeprefix("linux-source-")] = tree
        table = {"message": made(trees), "call": read()["call"]}
    text = "# contrib/manual/kernel_messages.py says what the members are, and completes them.\n"
    for name, rows in table.items():
        for row in rows:
            text += f"\n[[{name}]]\n"
            for key, value in row.items():
                text += f"{json.dumps(key) if '.' in key else key} = {json.dumps(value)}\n"
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
