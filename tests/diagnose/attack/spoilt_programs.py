"""Programs of root that another user could change or replace, each in a way of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from programs import program

#: An unused user and group id.
USER: Final = 12345

#: What a program does that must not run.
RUN: Final = "echo run >> NOTES"

Make = Callable[[Path], str]


def good(place: Path, name: str = "check") -> Path:
    """A program in a folder of its own, three levels below ``place``."""
    folder = place / "a" / "b" / "c"
    folder.mkdir(parents=True, exist_ok=True)
    return Path(program(folder, name, RUN))


def _file(change: Callable[[Path], None]) -> Make:
    def make(place: Path) -> str:
        file = good(place)
        change(file)
        return str(file)

    return make


def _above(level: int, change: Callable[[Path], None]) -> Make:
    """Change the directory ``level`` steps above the program."""

    def make(place: Path) -> str:
        file = good(place)
        change(file.parents[level - 1])
        return str(file)

    return make


def _mode(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


def _give_away(path: Path) -> None:
    os.chown(path, USER, USER)


def _replaced(make: Callable[[Path], object]) -> Make:
    def spoil(file: Path) -> None:
        file.unlink()
        make(file)

    return _file(spoil)


def _socket(path: Path) -> None:
    # Its full path would be too long.
    with socket.socket(socket.AF_UNIX) as made:
        before = os.getcwd()
        os.chdir(path.parent)
        made.bind(path.name)
        os.chdir(before)


def _foreign(place: Path) -> Path:
    """A directory of the other user, with a program of root's in it."""
    folder = place / "foreign"
    folder.mkdir()
    file = Path(program(folder, "check", RUN))
    _give_away(folder)
    return file


def _open(place: Path) -> Path:
    """The same in a directory like /tmp."""
    folder = place / "open"
    folder.mkdir()
    file = Path(program(folder, "check", RUN))
    folder.chmod(0o1777)
    return file


def _linked(target: Callable[[Path], Path]) -> Make:
    def make(place: Path) -> str:
        link = good(place, "other").with_name("check")
        link.symlink_to(target(place))
        return str(link)

    return make


def _link_in_a_foreign_directory(place: Path) -> str:
    link = _foreign(place).with_name("link")
    link.symlink_to(good(place))
    return str(link)


def _directory_linked(place: Path) -> str:
    link = good(place).parent / "more"
    link.symlink_to(_foreign(place).parent)
    return str(link / "check")


def _loop(place: Path) -> Path:
    return good(place).parent / "check"


def _dots(place: Path) -> str:
    """The way through a directory counts, also when it leads back."""
    _foreign(place)
    return f"{place}/foreign/../{good(place).relative_to(place)}"


def _script(shell: Callable[[Path], str]) -> Make:
    """A good script with an interpreter that is none."""

    def make(place: Path) -> str:
        folder = good(place).parent
        return program(folder, "script", RUN, shell=shell(place))

    return make


def _interpreter(change: Callable[[Path], None]) -> Make:
    def shell(place: Path) -> str:
        folder = place / "shells"
        folder.mkdir()
        file = folder / "sh"
        file.write_bytes(Path("/bin/sh").read_bytes())
        file.chmod(0o755)
        change(file)
        return str(file)

    return _script(shell)


def _of_itself(file: Path) -> None:
    file.write_text(f"#!{file}\n")


def _of_a_foreign_one(file: Path) -> None:
    file.write_text(f"#!{_foreign(file.parent)}\n")


def _linked_to_the_open(file: Path) -> None:
    file.unlink()
    file.symlink_to(_open(file.parent))


OWNER: Final = f"belongs to the user {USER}, not to root"
WRITABLE: Final = "can be written to by others than root"

#: Name -> how to make such a program, and a part of the sentence that refuses it.
SPOILT: Final[dict[str, tuple[Make, str]]] = {
    "file of another user": (_file(_give_away), OWNER),
    "file of mode 0775": (_file(_mode(0o775)), WRITABLE),
    "file of mode 0757": (_file(_mode(0o757)), WRITABLE),
    "file of mode 0644": (_file(_mode(0o644)), "is not executable"),
    "directory of another user": (_above(1, _give_away), OWNER),
    "directory of mode 0777": (_above(1, _mode(0o777)), WRITABLE),
    "directory of mode 0775": (_above(1, _mode(0o775)), WRITABLE),
    "directory of mode 1777": (_above(1, _mode(0o1777)), WRITABLE),
    "parent of another user": (_above(2, _give_away), OWNER),
    "grandparent of another user": (_above(3, _give_away), OWNER),
    "grandparent of mode 0777": (_above(3, _mode(0o777)), WRITABLE),
    "grandparent of mode 1777": (_above(3, _mode(0o1777)), WRITABLE),
    "link to a foreign directory": (_linked(_foreign), OWNER),
    "link to an open directory": (_linked(_open), WRITABLE),
    "link in a foreign directory": (_link_in_a_foreign_directory, OWNER),
    "directory that is a link": (_directory_linked, OWNER),
    "link to itself": (_replaced(lambda file: file.symlink_to(file)), "too many symbolic links"),
    "dangling link": (_linked(lambda place: place / "nosuch"), "No such file or directory"),
    "through a foreign directory": (_dots, OWNER),
    "through a file": (lambda place: f"{good(place)}/check", "is not a directory"),
    "fifo": (_replaced(os.mkfifo), "is not a regular file"),
    "socket": (_replaced(_socket), "is not a regular file"),
    "directory": (_replaced(Path.mkdir), "is not a regular file"),
    "device": (
        _replaced(lambda file: os.mknod(file, 0o20755, os.makedev(1, 3))),
        "is not a regular file",
    ),
    "missing": (_replaced(lambda file: None), "No such file or directory"),
    "interpreter of another user": (_interpreter(_give_away), OWNER),
    "interpreter that all can write": (_interpreter(_mode(0o777)), WRITABLE),
    "interpreter in an open directory": (
        _interpreter(lambda file: file.parent.chmod(0o777)),
        WRITABLE,
    ),
    "interpreter in a foreign directory": (
        _interpreter(lambda file: _give_away(file.parent)),
        OWNER,
    ),
    "interpreter that is a link": (_interpreter(_linked_to_the_open), WRITABLE),
    "interpreter of an interpreter": (_interpreter(_of_a_foreign_one), OWNER),
    "interpreter of itself": (_interpreter(_of_itself), "too many interpreters"),
    "relative interpreter": (_script(lambda _: "python3"), "is not an absolute path"),
    "missing interpreter": (_script(lambda _: "/nonexistent/sh"), "No such file or directory"),
}
