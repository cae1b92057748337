"""The whitelist, with real files of root: nothing outside it is ever run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import program
from whitelists import needs_root, whitelist

from ganeti_steward.core.program import LADDER, Ended, run_program
from ganeti_steward.diagnose import whitelist as tested
from ganeti_steward.diagnose.whitelist import Forbidden, listing, opened, run

pytestmark = needs_root

#: Seconds; far more than any command here takes.
LIMIT = 300.0

#: Nobody's user and group.
SOMEBODY = 12345


@pytest.fixture
def commands() -> Iterator[Path]:
    with whitelist() as path:
        yield path


def asked(commands: Path, name: str = "raid", given: bytes = b"") -> Ended:
    """What the command does when it is run."""
    return run(name, str(commands), LIMIT, output_limit=2**20, ladder=LADDER, given=given)


def says(directory: Path, name: str, word: str, mode: int = 0o755) -> Path:
    file = Path(program(directory, name, f"echo {word}"))
    file.chmod(mode)
    return file


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o555, 0o500, 0o711, 0o655])
def test_a_command_that_may_be_run(commands: Path, mode: int) -> None:
    says(commands, "raid", "good", mode)
    assert asked(commands) == (0, b"good\n", b"", "")


@pytest.mark.parametrize("name", ["raid", "RAID-6_x", "0", "-", "_"])
def test_names_of_commands(commands: Path, name: str) -> None:
    says(commands, name, "good")
    assert asked(commands, name).output == b"good\n"


def test_what_a_command_finds(commands: Path) -> None:
    """No arguments, an empty environment, the root directory, the input on stdin."""
    source = """
        import json, os, sys
        with open("/proc/self/environ", "rb") as file:
            environment = file.read().decode()
        print(json.dumps([sys.argv[1:], environment, os.getcwd(), sys.stdin.read()]))
    """
    program(commands, "raid", source, shell="/usr/bin/python3 -IS")
    found = json.loads(asked(commands, given=b'{"status":"live-repair"}').output)
    assert found == [[], "", "/", '{"status":"live-repair"}']
    assert json.loads(asked(commands).output)[3] == ""


def test_a_binary_knows_its_name(commands: Path) -> None:
    shutil.copy("/bin/cat", commands / "cat")
    with opened("cat", str(commands)) as descriptor:
        command = [str(commands / "cat"), "/proc/self/cmdline"]
        ended = run_program(command, LIMIT, executable=descriptor)
    assert ended.output.split(b"\0")[0] == os.fsencode(commands / "cat")


def test_a_script_is_always_told_the_same_name(commands: Path) -> None:
    """However many files its caller holds: a finding may show it."""
    program(commands, "raid", "echo $0")
    first = asked(commands).output
    with open(os.devnull), open(os.devnull):
        assert asked(commands).output == first


BAD_NAMES = {
    "empty": "",
    "blank": " ",
    "blank at the end": "raid ",
    "blank inside": "ra id",
    "dot": ".",
    "parent": "..",
    "dots": "...",
    "dot inside": "raid.sh",
    "hidden": ".raid",
    "slash": "/",
    "absolute": "/bin/true",
    "below": "sub/raid",
    "above": "../raid",
    "itself": "./raid",
    "slash at the end": "raid/",
    "nul": "raid\0",
    "nul inside": "raid\0.sh",
    "newline": "raid\n",
    "newline before": "\nraid",
    "tab": "raid\t",
    "shell": "raid;id",
    "variable": "$PATH",
    "star": "*",
    "backslash": "ra\\id",
    "letter of another alphabet": "r\u0430id",
    "digit of another alphabet": "raid\u0661",
    "half a character": "raid\udc80",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_names_that_are_none(commands: Path, name: str) -> None:
    """Also where there is such a file, and a good one beside it."""
    says(commands, "raid", "good")
    says(commands.parent, "raid", "bad")
    (commands / "sub").mkdir()
    says(commands / "sub", "raid", "bad")
    says(commands, "raid.sh", "bad")
    with pytest.raises(Forbidden, match="is no name of a command"):
        asked(commands, name)


def _missing(path: Path) -> None:
    path.unlink()


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o755)


def _socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    path.chmod(0o755)


def _device(path: Path) -> None:
    path.unlink()
    os.mknod(path, 0o20755, os.makedev(1, 3))


def _owner(path: Path) -> None:
    os.chown(path, SOMEBODY, 0)


def _group(path: Path) -> None:
    os.chown(path, 0, SOMEBODY)


def _mode(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


BAD_FILES = [
    (_missing, "{} cannot be opened: No such file or directory"),
    (_directory, "{} is no regular file"),
    (_fifo, "{} is no regular file"),
    (_socket, "{} is no regular file"),
    (_device, "{} is no regular file"),
    (_owner, "{} belongs to 12345:0 (user:group), not to 0:0"),
    (_group, "{} belongs to 0:12345 (user:group), not to 0:0"),
    *[
        (_mode(mode), f"{{}} has the mode {mode:04o}, which is more than 0755")
        for mode in (0o4755, 0o2755, 0o1755, 0o775, 0o757, 0o722, 0o777)
    ],
    *[(_mode(mode), "{} is not executable") for mode in (0o644, 0o600, 0o444, 0o000)],
]


@pytest.mark.parametrize(("spoil", "fault"), BAD_FILES)
def test_files_that_are_not_run(commands: Path, spoil: Callable[[Path], None], fault: str) -> None:
    file = says(commands, "raid", "bad")
    spoil(file)
    with pytest.raises(Forbidden) as caught:
        asked(commands)
    assert str(caught.value) == fault.format(file)


@pytest.mark.parametrize(("spoil", "fault"), BAD_FILES)
def test_links_to_files_that_are_not_run(
    commands: Path, spoil: Callable[[Path], None], fault: str
) -> None:
    """A link is as good as its target."""
    target = says(commands.parent, "tool", "bad")
    (commands / "raid").symlink_to(target)
    assert asked(commands).output == b"bad\n"
    spoil(target)
    with pytest.raises(Forbidden) as caught:
        asked(commands)
    assert str(caught.value) == fault.format(target)


BAD_DIRECTORIES = [
    (_owner, "{} belongs to 12345:0 (user:group), not to 0:0"),
    (_group, "{} belongs to 0:12345 (user:group), not to 0:0"),
    *[
        (_mode(mode), f"{{}} has the mode {mode:04o}, which is more than 0755")
        for mode in (0o1755, 0o2755, 0o775, 0o757, 0o777, 0o1777)
    ],
]


@pytest.mark.parametrize(("spoil", "fault"), BAD_DIRECTORIES)
@pytest.mark.parametrize("ask", [asked, lambda path: listing(str(path))], ids=["run", "list"])
def test_directories_in_which_nothing_is_run(
    commands: Path,
    ask: Callable[[Path], object],
    spoil: Callable[[Path], None],
    fault: str,
) -> None:
    says(commands, "raid", "bad")
    spoil(commands)
    with pytest.raises(Forbidden) as caught:
        ask(commands)
    assert str(caught.value) == fault.format(commands)


def test_a_whitelist_that_is_none(commands: Path) -> None:
    file = says(commands, "raid", "bad")
    for place, fault in [
        (commands / "nosuch", f"{commands}/nosuch cannot be opened: No such file or directory"),
        (file, f"{file} is no directory"),
    ]:
        with pytest.raises(Forbidden) as caught:
            asked(place)
        assert str(caught.value) == fault


BAD_PARENTS = [
    (_owner, "{} belongs to the user 12345, not to root"),
    *[
        (_mode(mode), "{} can be written to by others than root")
        for mode in (0o775, 0o757, 0o777, 0o1777)
    ],
]


@pytest.mark.parametrize(("spoil", "fault"), BAD_PARENTS)
def test_parents_in_which_others_can_write(
    commands: Path, spoil: Callable[[Path], None], fault: str
) -> None:
    """They could put another whitelist in the place of this one; a sticky bit changes nothing."""
    below = commands.parent / "a" / "b"
    below.mkdir(parents=True)
    says(below, "raid", "good")
    assert asked(below).output == b"good\n"
    spoil(commands.parent)
    with pytest.raises(Forbidden) as caught:
        asked(below)
    assert str(caught.value) == fault.format(commands.parent)


def test_below_tmp(tmp_path: Path) -> None:
    says(tmp_path, "raid", "bad")
    with pytest.raises(Forbidden, match="/tmp can be written to by others than root"):
        asked(tmp_path)


def test_links_outside(commands: Path) -> None:
    """To where nobody but root can change anything: absolute, relative, over other links."""
    away = commands.parent / "away" / "deep"
    away.mkdir(parents=True)
    says(away, "tool", "good")
    (commands / "absolute").symlink_to(away / "tool")
    (commands / "relative").symlink_to(".././away//deep/tool")
    (commands.parent / "over").symlink_to("away")
    (commands / "over").symlink_to("../over/deep/tool")
    (commands / "again").symlink_to("over")
    for name in ("absolute", "relative", "over", "again"):
        assert asked(commands, name).output == b"good\n"


def test_a_whitelist_that_is_a_link(commands: Path) -> None:
    says(commands, "raid", "good")
    link = commands.parent / "link"
    link.symlink_to("commands")
    assert asked(link).output == b"good\n"
    assert listing(f"{link}/") == ["raid"]


@pytest.mark.parametrize(("spoil", "fault"), BAD_PARENTS)
@pytest.mark.parametrize("target", ["bad/tool", "bad/deep/tool", "bad/../good/tool", "bad/link"])
def test_links_over_where_others_can_write(
    commands: Path, target: str, spoil: Callable[[Path], None], fault: str
) -> None:
    """However good what lies there today: tomorrow it is something else."""
    bad, good = commands.parent / "bad", commands.parent / "good"
    (bad / "deep").mkdir(parents=True)
    good.mkdir()
    for place in (bad, bad / "deep", good):
        says(place, "tool", "bad")
    (bad / "link").symlink_to("../good/tool")
    (commands / "raid").symlink_to(f"../{target}")
    assert asked(commands).output == b"bad\n"
    spoil(bad)
    with pytest.raises(Forbidden) as caught:
        asked(commands)
    assert str(caught.value) == fault.format(bad)


def test_a_whitelist_reached_over_where_others_can_write(commands: Path) -> None:
    says(commands, "raid", "bad")
    open_to_all = commands.parent / "open"
    open_to_all.mkdir()
    (open_to_all / "link").symlink_to(commands)
    assert asked(open_to_all / "link").output == b"bad\n"
    open_to_all.chmod(0o777)
    with pytest.raises(Forbidden, match="open can be written to by others than root"):
        asked(open_to_all / "link")


@pytest.mark.parametrize("target", ["raid", "../commands/raid", "other"])
def test_links_in_a_ring(commands: Path, target: str) -> None:
    (commands / "raid").symlink_to(target)
    (commands / "other").symlink_to("raid")
    with pytest.raises(Forbidden, match="leads over too many symbolic links"):
        asked(commands)


def test_dangling_link(commands: Path) -> None:
    (commands / "raid").symlink_to("nosuch")
    with pytest.raises(Forbidden, match="nosuch cannot be opened: No such file"):
        asked(commands)


def test_a_link_to_a_file_of_the_process(commands: Path, tmp_path: Path) -> None:
    """What /proc shows of an open file has a way of its own past all directories."""
    with open(says(tmp_path, "tool", "bad")) as file:
        (commands / "raid").symlink_to(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        with pytest.raises(Forbidden, match="/tmp can be written to by others than root"):
            asked(commands)


def test_no_descriptor_is_left(commands: Path) -> None:
    says(commands, "raid", "good")
    (commands / "open").symlink_to("/tmp/nosuch")
    before = os.listdir("/proc/self/fd")
    asked(commands)
    for name in ("open", "nosuch", "a b"):
        with pytest.raises(Forbidden):
            asked(commands, name)
    assert os.listdir("/proc/self/fd") == before


def _other_file(commands: Path) -> None:
    says(commands, "new", "bad").rename(commands / "raid")


def _other_link(commands: Path) -> None:
    (commands / "new").symlink_to(says(commands, "bad", "bad"))
    (commands / "new").rename(commands / "raid")


def _other_directory(commands: Path) -> None:
    commands.rename(commands.parent / "old")
    commands.mkdir()
    says(commands, "raid", "bad")


def _nothing(commands: Path) -> None:
    shutil.rmtree(commands)
    commands.mkdir()


SWAPS = [_other_file, _other_link, _other_directory, _nothing]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("kind", ["script", "binary"])
def test_swapped_between_check_and_run(
    commands: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path], None],
    kind: str,
) -> None:
    """The file that was checked is the one that runs."""
    if kind == "script":
        says(commands, "raid", "good")
    else:
        shutil.copy("/bin/pwd", commands / "raid")
    original = run_program

    def too_late(*args: object, **kwargs: object) -> Ended:
        swap(commands)
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(tested, "run_program", too_late)
    assert asked(commands).output == (b"good\n" if kind == "script" else b"/\n")


def test_a_link_swapped_between_check_and_run(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (commands / "raid").symlink_to(says(commands.parent, "tool", "good"))
    original = run_program

    def too_late(*args: object, **kwargs: object) -> Ended:
        _other_link(commands)
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(tested, "run_program", too_late)
    assert asked(commands).output == b"good\n"
    monkeypatch.undo()
    assert asked(commands).output == b"bad\n"


@pytest.mark.parametrize("swap", [_other_directory, _nothing])
def test_the_directory_swapped_while_it_is_checked(
    commands: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path], None]
) -> None:
    """The file is looked for in the directory that was checked, wherever that is now."""
    says(commands, "raid", "good")
    original = tested._directory

    def then_swapped(*args: object) -> int:
        place = original(*args)  # type: ignore[arg-type]
        swap(commands)
        return place

    monkeypatch.setattr(tested, "_directory", then_swapped)
    if swap is _nothing:
        with pytest.raises(Forbidden, match="No such file or directory"):
            asked(commands)
    else:
        assert asked(commands).output == b"good\n"


def test_somebody_who_swaps_all_the_time(commands: Path) -> None:
    """One name, now a good file, now one of somebody else, now a link to where all can write."""
    says(commands, "good", "good")
    os.chown(says(commands, "foreign", "bad"), SOMEBODY, SOMEBODY)
    open_to_all = commands.parent / "open"
    open_to_all.mkdir()
    says(open_to_all, "tool", "bad")
    open_to_all.chmod(0o777)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for make in ("good", "foreign"):
                os.link(commands / make, commands / "new")
                os.rename(commands / "new", commands / "raid")
            os.symlink("../open/tool", commands / "new")
            os.rename(commands / "new", commands / "raid")
            # A rename to another name of the same file does nothing.
            (commands / "raid").unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes: list[str] = []
    try:
        while len(outcomes) < 100 or len(set(outcomes)) < 2:
            try:
                outcomes.append(asked(commands).output.decode())
            except Forbidden:
                outcomes.append("refused")
    finally:
        done.set()
        swapping.join()
    assert set(outcomes) == {"good\n", "refused"}


def test_listing(commands: Path) -> None:
    """Everything, unchecked: what is wrong with one is told where it is to be run."""
    for name in ("raid", "b", "raid.dpkg-old", ".hidden"):
        says(commands, name, "good", 0o644)
    (commands / "a").mkdir()
    assert listing(str(commands)) == [".hidden", "a", "b", "raid", "raid.dpkg-old"]
