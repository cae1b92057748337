"""``gnt-steward install-iallocator``: link the allocator where Ganeti looks for it."""

from __future__ import annotations

import argparse
import os
import pwd
import re
import stat
import sys
from collections.abc import Sequence
from glob import glob
from typing import Final

from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.this_node import SOCKET
from ganeti_steward.core.safe_files import make_directory

NAME: Final = "steward"

#: Seconds in which luxid has to answer.
_LUXI_LIMIT: Final = 10.0

_DAEMON_USER: Final = "gnt-masterd"
SCRIPT: Final = "steward-iallocator"

#: Where distributions put the constants Ganeti was built with; the newest version counts.
_CONSTANTS: Final = (
    "/usr/share/ganeti/default/ganeti/_constants.py",
    "/usr/share/ganeti/[0-9]*/ganeti/_constants.py",
    "/usr/lib/python3/dist-packages/ganeti/_constants.py",
    "/usr/local/share/ganeti/[0-9]*/ganeti/_constants.py",
)
_SEARCH_PATH: Final = re.compile(r"^IALLOCATOR_SEARCH_PATH = \[(?P<paths>[^\]]*)\]", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward install-iallocator": "then: gnt-instance add -I steward",
            "gnt-steward install-iallocator --remove": "remove the link again",
        },
        statuses={EXIT_FAILURE: "the directory is missing, or has another file of this name"},
    )
    parser.add_argument(
        "--dir",
        help="the directory to link in; it must exist; default: the first of Ganeti's search path",
    )
    parser.add_argument("--remove", action="store_true", help="remove the link again")


def run(options: argparse.Namespace) -> int:
    """Make or remove the link; doing it twice changes nothing."""
    directories = [options.dir] if options.dir is not None else search_path(_CONSTANTS)
    if options.remove:
        removed = [link for link in map(_link_in, directories) if _remove(link)]
        for link in removed:
            print(f"removed {link}")
        if not removed:
            print(f"no allocator {NAME} of ours in {', '.join(directories)}")
        print_notes(_notes_of_removal())
        return EXIT_OK
    if options.dir is not None and not os.path.isdir(options.dir):
        raise StewardError(f"{options.dir}: there is no such directory; it is not created")
    link = _link_in(directories[0])
    script = own_script()
    check_reachable(script)
    print(f"{link} -> {script}" + ("" if _install(link, script) else " (as before)"))
    if options.dir is None:
        print(f"use it: gnt-instance add -I {NAME} ..., or gnt-cluster modify -I {NAME}")
    return EXIT_OK


def _notes_of_removal() -> list[str]:
    """That the cluster names an allocator which is no longer there; nothing where it does not."""
    try:
        default = Luxi(SOCKET, time_limit=_LUXI_LIMIT).info().get("default_iallocator")
    except StewardError as err:
        return [f"it is not known whether the cluster's default allocator is {NAME}: {err}"]
    if default != NAME:
        return []
    return [
        f"the cluster still names {NAME} as its default allocator, so commands without -I will "
        "fail; name another one: gnt-cluster modify -I hail"
    ]


def lacking(name: str) -> str:
    """The directories of Ganeti where an allocator is missing; empty: it has it, or no Ganeti."""
    try:
        directories = search_path(_CONSTANTS)
    except StewardError:
        return ""
    found = any(os.path.isfile(os.path.join(directory, name)) for directory in directories)
    return "" if found else ", ".join(directories)


def search_path(patterns: Sequence[str]) -> list[str]:
    """Ganeti's own list of directories, in its order; raises StewardError without Ganeti."""
    files = [file for p in patterns for file in sorted(glob(p), key=_version, reverse=True)]
    for file in files:
        try:
            with open(file, encoding="utf-8", errors="replace") as handle:
                match = _SEARCH_PATH.search(handle.read())
        except OSError:
            continue
        if match:
            paths = re.findall(r"[\"']([^\"']+)[\"']", match["paths"])
            if paths:
                return paths
    raise StewardError("Ganeti is not installed here; name the directory with --dir")


def _version(path: str) -> list[int]:
    """The numbers in a path, so that 3.10 is newer than 3.9."""
    return [int(number) for number in re.findall(r"\d+", path)]


def own_script() -> str:
    """The allocator's script that belongs to this installation."""
    beside = [
        os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), SCRIPT),
        os.path.join(os.path.dirname(sys.executable), SCRIPT),
    ]
    for script in beside:
        if os.access(script, os.X_OK):
            return script
    raise StewardError(f"{SCRIPT} is not beside this program ({beside[0]})")


def check_reachable(script: str) -> None:
    """Raise StewardError when Ganeti's daemons cannot see the script.

    noded runs it as root, but luxid and the jobs look for it as a user of their own.
    """
    if not _has_user(_DAEMON_USER):
        return
    directory = os.path.dirname(script)
    while directory != "/":
        mode = os.stat(directory).st_mode
        if not mode & stat.S_IXOTH:
            raise StewardError(
                f"{script} cannot be seen by Ganeti's user {_DAEMON_USER}: {directory} is "
                f"closed to others (mode {stat.S_IMODE(mode):04o}); install Steward elsewhere, "
                "e.g. in /opt"
            )
        directory = os.path.dirname(directory)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _link_in(directory: str) -> str:
    return os.path.join(directory, NAME)


def _install(link: str, script: str) -> bool:
    """Link; False when it was there already.  Never replaces what is not ours."""
    if os.path.islink(link) and os.readlink(link) == script:
        return False
    if os.path.lexists(link) and not _is_ours(link):
        raise StewardError(f"{link} exists and is not a link to a {SCRIPT}; move it away first")
    new = f"{link}.new-{os.getpid()}"
    try:
        make_directory(os.path.dirname(link), 0o755)
        os.symlink(script, new)
        os.replace(new, link)
    except OSError as err:
        raise StewardError(f"{link}: {err.strerror}") from None
    return True


def _remove(link: str) -> bool:
    if not os.path.lexists(link):
        return False
    if not _is_ours(link):
        raise StewardError(f"{link} is not a link to a {SCRIPT}; it is left alone")
    try:
        os.unlink(link)
    except OSError as err:
        raise StewardError(f"{link}: {err.strerror}") from None
    return True


def _is_ours(link: str) -> bool:
    return os.path.islink(link) and os.path.basename(os.readlink(link)) == SCRIPT
